"""MCP: servers whose tools agents may call, and what these tools are to us."""
