"""The delay before something is tried again: 1 s, doubling to 5 minutes (D21)."""

FIRST, LONGEST = 1.0, 300.0  # seconds


def longer(before: float | None) -> float:
    """Return the delay after that one; the first if there was none."""
    return FIRST if before is None else min(before * 2, LONGEST)


def nth(n: int) -> float:
    """Return the delay before the n-th retry, counted from 0."""
    return min(FIRST * 2.0 ** min(n, 30), LONGEST)
