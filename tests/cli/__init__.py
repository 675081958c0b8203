"""The command line, run as a user runs it: in a process of its own."""
