"""The demo: an agent that works on this machine, without any provider."""
