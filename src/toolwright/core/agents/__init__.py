"""Agents and prompts: their definitions, their configuration, and which of them answers."""
