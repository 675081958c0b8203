"""Worker programs, one for each system. Each runs in a virtual environment of its own."""
