"""The state of the thread that a handler works in, and what it may do there."""
