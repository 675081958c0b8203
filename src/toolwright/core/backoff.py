"""Backoff: the delay before a retry, 1 s, doubling up to 5 minutes (D21)."""

FIRST, LONGEST = 1.0, 300.0  # seconds


def longer(before: float | None) -> float:
    """Return the delay after the given one, or the first delay."""
    return FIRST if before is None else min(before * 2, LONGEST)


def nth(n: int) -> float:
    """Return the delay before the n-th retry, counted from 0."""
    return min(FIRST * 2.0 ** min(n, 30), LONGEST)
