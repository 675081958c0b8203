"""Who calls, by key or token, and what they may see and do."""
