"""Use cases: the way of a run and of a tool call, one module per noun."""
