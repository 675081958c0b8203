"""System prompts of agents: what they are told at every step, and its preview."""
