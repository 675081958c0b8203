"""OpenAPI documents as configurations of HTTP tools: sources, and one tool per operation."""
