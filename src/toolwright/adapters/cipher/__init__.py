"""Ciphers that encrypt secrets."""
