"""Spaces, their members and messages, and the entities that take part, as values."""
