"""Spaces: membership, what is said and read there, and the entities that take part."""
