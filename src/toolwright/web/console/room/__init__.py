"""Page of a space: live messages, presence, and the field for a new message."""
