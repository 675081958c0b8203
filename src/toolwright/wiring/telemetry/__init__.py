"""Telemetry of a process: which is chosen, and how it is opened."""
