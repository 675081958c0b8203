"""MCP server with the app's tools: over streamable HTTP at the gateway, and on stdio."""
