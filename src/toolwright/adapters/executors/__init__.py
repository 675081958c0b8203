"""Executors of tools whose calls go to the outside world."""
