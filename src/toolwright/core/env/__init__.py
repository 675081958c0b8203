"""Values and secrets: variables, tenvs, their types, and the redaction of secrets."""
