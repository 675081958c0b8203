"""Durations as people write them: `30d`, `12h`, `90m`, `45s`, or a number of seconds."""

import re
from datetime import timedelta

from toolwright.core.text import brief

_WRITTEN = re.compile(r"(\d{1,9})\s*([smhdw]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
_MOST = 100 * 365 * 86_400  # so that there is a date so long ago

FOREVER = "forever"


def read_duration(text: str) -> timedelta | None:
    """The duration, None for `forever`. Raises `ValueError` with what a duration looks like."""
    if text.strip().lower() == FOREVER:
        return None
    written = _WRITTEN.fullmatch(text.strip().lower())
    seconds = 0 if written is None else int(written[1]) * _SECONDS[written[2]]
    if not 0 < seconds <= _MOST:
        raise ValueError(
            f"must be a duration such as 30d, 12h, 90m or 3600 (seconds), of 100 years at most, or {FOREVER}, "
            f"not {brief(repr(text), 100)}"
        )
    return timedelta(seconds=seconds)
