"""The command `toolwright serve`."""
