"""Use cases: execution of runs and of tool calls, one module per noun."""
