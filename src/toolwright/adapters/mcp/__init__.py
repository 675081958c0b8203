"""MCP client: connections to MCP servers through the official SDK. Needs the extra `mcp`."""
