"""Runs as the console shows them: their steps and calls, what they cost, and what they wait for."""
