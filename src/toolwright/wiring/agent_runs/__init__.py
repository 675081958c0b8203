"""Runs of agents from beginning to end: `tw.run`, `tw.run_sync`, `tw.stream`."""
