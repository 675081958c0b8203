"""Runs: steps, calls of a step, prompt tools, ends, failures."""
