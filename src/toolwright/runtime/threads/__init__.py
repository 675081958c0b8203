"""Threads, runs and inboxes as users of the runtime see them, and the events that they follow."""
