"""The tables by noun, and how their rows become values."""
