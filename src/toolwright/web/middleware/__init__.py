"""Middleware of every request: limits, CORS, errors, unknown paths."""
