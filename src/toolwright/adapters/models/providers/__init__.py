"""Models of providers, by way of pydantic-ai."""
