"""Composed requests (S1): executed in threads of their own, followed and stored like any run."""
