"""UI components that draw tool calls, by tool name."""
