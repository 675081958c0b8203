"""Agents and prompts: definitions, JSON configuration, activation, and the agent's state between runs."""
