"""System prompts of agents, built for every step, and their preview."""
