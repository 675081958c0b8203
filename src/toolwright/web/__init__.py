"""HTTP gateway of a runtime."""
