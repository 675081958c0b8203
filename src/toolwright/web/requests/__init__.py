"""Validation of request bodies, queries and headers."""
