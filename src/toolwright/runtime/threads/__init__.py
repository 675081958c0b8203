"""Threads, runs and inboxes for users of the runtime, and the events that they follow."""
