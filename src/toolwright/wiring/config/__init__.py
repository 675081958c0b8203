"""Configuration files: agents, people and spaces as JSON."""
