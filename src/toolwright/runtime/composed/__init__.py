"""Composed requests (S1): solved in threads of their own, watched and kept like any run."""
