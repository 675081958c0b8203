"""The outside world behind the core's ports; adapters know the core and the wire, nothing else."""
