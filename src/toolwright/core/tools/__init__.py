"""What a tool is, how it is configured, and how it is called outside a run."""
