"""MCP servers in runs: their tools for agents, and the tasks that they execute."""
