"""Requests to models, and their answers while they stream."""
