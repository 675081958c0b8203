"""Calls that are executed from outside: listed, offered, claimed, settled."""
