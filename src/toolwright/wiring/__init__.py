"""The composition root: the only layer that names adapters and reads settings."""
