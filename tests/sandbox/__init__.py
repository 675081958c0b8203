"""Untrusted code, run in a sandbox."""
