"""Stores of the bytes of files: an object store, or memory."""
