"""MCP: servers whose tools agents can call, and their representation as our tools."""
