"""What a handler sees of the thread that it works in, and what it may do there."""
