"""The gateway: a runtime over HTTP."""
