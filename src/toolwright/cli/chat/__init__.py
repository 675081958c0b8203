"""The command `toolwright chat`."""
