"""MCP servers that misbehave, each in one way: `catalogue.py` has their names, `serving.py` starts them."""
