"""The composition root: the only layer that imports adapters and reads settings."""
