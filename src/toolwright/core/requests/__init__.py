"""Composed requests (S1): tools and an output schema in one request, which is repeated until there is an output."""
