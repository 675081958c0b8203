"""Calls: plan, start, execute, settle, wait; calls within calls, visible calls."""
