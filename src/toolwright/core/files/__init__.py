"""Files of a thread as values, and those that are not committed yet."""
