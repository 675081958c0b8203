"""Stores of file contents: an object store, or memory."""
