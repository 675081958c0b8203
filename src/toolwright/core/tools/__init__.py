"""Tools: their definition, their configuration, and their calls outside a run."""
