"""System prompts of agents, made at every step, and their preview."""
