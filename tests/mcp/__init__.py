"""MCP on both sides: conformance suite, peers that misbehave, our client and server with other implementations."""
