"""Composed requests (S1): tools and an output schema in one answer, asked for until there is an output."""
