"""Executors of tools as the settings have them, and the sandbox; each is loaded when it is first needed."""
