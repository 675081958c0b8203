"""Spaces: membership, messages, and the entities that are their members."""
