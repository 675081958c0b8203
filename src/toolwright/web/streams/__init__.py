"""Event streams over HTTP: what a reader may see, and when the right to it ends."""
