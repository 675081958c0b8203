"""OpenAPI documents as configurations of HTTP tools: where they come from, and what each operation becomes."""
