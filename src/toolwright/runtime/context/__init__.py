"""The context of a run in progress: what the journal says, what this process adds, how to write."""
