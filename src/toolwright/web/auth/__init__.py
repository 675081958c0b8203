"""Authentication of callers, by key or token, and their permits."""
