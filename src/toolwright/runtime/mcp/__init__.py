"""MCP servers in runs: the tools that agents have of them, and the tasks that they execute."""
