"""State of a run for handlers."""
