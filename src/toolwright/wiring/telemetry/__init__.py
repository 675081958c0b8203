"""Whether a process has telemetry, and which."""
