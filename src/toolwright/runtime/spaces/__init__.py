"""Spaces: membership, messages, and the entities that take part."""
