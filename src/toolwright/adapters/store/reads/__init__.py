"""The queries of the store, by noun."""
