"""MCP on both sides: its conformance suite, peers that misbehave, and our client and server with others'."""
