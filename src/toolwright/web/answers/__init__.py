"""JSON answers, their forms in the OpenAPI document, and status codes."""
