"""How secrets are sealed."""
