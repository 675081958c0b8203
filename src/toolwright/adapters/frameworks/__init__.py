"""Tool conversion to and from other agent frameworks."""
