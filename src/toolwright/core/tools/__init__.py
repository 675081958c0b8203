"""Tools: definition, JSON configuration, and calls outside a run."""
