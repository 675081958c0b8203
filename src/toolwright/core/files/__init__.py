"""Files of a thread as values, and staged files."""
