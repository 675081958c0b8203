"""Upkeep of a journal from a process that leads no runs: deletion of threads, backups."""
