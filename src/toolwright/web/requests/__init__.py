"""Bodies, queries and headers of requests, checked."""
