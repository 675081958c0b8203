"""Executors of tools that call external services."""
