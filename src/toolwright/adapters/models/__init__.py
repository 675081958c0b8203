"""Models: every provider through pydantic-ai, and a scripted one for offline runs."""
