"""MCP servers as a client sees them, by the official SDK. Needs the extra `mcp`."""
