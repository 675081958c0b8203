"""The app's tools as an MCP server: over streamable HTTP at the gateway, and on stdio."""
