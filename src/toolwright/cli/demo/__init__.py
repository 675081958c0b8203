"""The demo: agents that run offline, with a scripted model."""
