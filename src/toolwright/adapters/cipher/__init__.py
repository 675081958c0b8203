"""Ciphers that seal secrets."""
