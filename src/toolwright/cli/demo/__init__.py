"""The demo: an agent at work on this machine, without any provider."""
