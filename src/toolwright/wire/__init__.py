"""JSON shapes and pure renderers, shared by the gateway, the client and the runtime."""
