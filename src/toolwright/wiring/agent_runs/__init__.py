"""Complete runs of agents: `tw.run`, `tw.run_sync`, `tw.stream`."""
