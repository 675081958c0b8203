"""How long to wait before a model is asked again."""

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
LONGEST_RETRY_AFTER = 60.0


def pause_before(attempt: int, retry_after: float | None, chance: float) -> float:
    """Seconds before attempt 2, 3, …; `chance` is a random number from 0 to 1.

    The provider's `Retry-After` counts, up to a minute; else 0.5 s, 1 s, 2 s …, half of it by chance.
    """
    if retry_after is not None:
        return min(max(retry_after, 0.0), LONGEST_RETRY_AFTER)
    whole = min(FIRST_PAUSE * 2 ** (attempt - 2), LONGEST_PAUSE)
    return whole * (0.5 + chance / 2)
