"""The `ThreadState` of handlers: its protocol, its implementation in memory, and the validation of its arguments."""
