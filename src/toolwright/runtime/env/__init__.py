"""Environments of threads: the sources of variables' values, and the redaction of secrets."""
