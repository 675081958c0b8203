"""How a call is carried out: handlers, calls within calls, waiting calls, visible calls."""
