"""Execution of calls: handlers, calls within calls, waiting calls, visible calls."""
