"""Limits that hold wherever JSON comes in or goes out (D20)."""

MAX_NESTING = 64
"""How many objects and lists may stand within each other; a plain `{}` is one level."""

MAX_INTEGER_BITS = 14_280
"""The largest whole number that Python reads and writes as text (4,300 digits)."""
