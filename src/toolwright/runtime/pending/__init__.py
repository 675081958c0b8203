"""Calls that are carried out from outside: listed, offered, claimed, settled."""
