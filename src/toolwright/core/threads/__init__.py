"""Threads, runs, messages, calls, events and inboxes as values."""
