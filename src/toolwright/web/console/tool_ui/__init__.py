"""Components that draw tool calls, by the names of the tools."""
