"""Crash benchmark: workers of several frameworks are killed with SIGKILL, and their effects are counted."""
