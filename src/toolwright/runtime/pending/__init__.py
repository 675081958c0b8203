"""Calls that are executed outside: listed, offered, claimed, settled."""
