"""The context of a run at work: what the journal says, what this process adds, how to write."""
