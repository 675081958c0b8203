"""How a program of statements runs on any database: its operations, outcome, and codecs."""
