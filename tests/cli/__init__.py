"""The command line, run as a user runs it: in a separate process."""
