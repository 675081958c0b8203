"""Facts of runs and calls in a few characters: statuses, tokens, prices and times."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from toolwright.core.threads.call import CallStatus
from toolwright.core.threads.run import Usage

KINDS: Final[Mapping[str, str]] = {
    "queued": "busy", "running": "busy", "waiting": "waiting", "completed": "good", "failed": "bad",
    "created": "busy", "pending": "waiting", "done": "good", "resolved": "good", "error": "bad", "expired": "bad",
    "cancelled": "bad", "idle": "", "terminated": "", "skipped": "", "writing": "busy", "success": "good",
}  # fmt: skip
"""Colours of the statuses of runs, threads and calls, as `badge` takes them."""
CALL_WORDS: Final[Mapping[CallStatus, str]] = {"created": "next", "pending": "waiting", "resolved": "done"}
"""Statuses of calls in other words than their own."""


def tokens(usage: Usage) -> str:
    """Tokens that were read and written, such as `1,200 in (1,000 cached) · 80 out`; nothing if there were none."""
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens:,} in{cached} · {usage.output_tokens:,} out"


def price(cost: float | None) -> str:
    """US dollars, with as many digits as tell something; nothing where prices are not known."""
    if cost is None or cost != cost:
        return ""
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.6f}".rstrip("0")


def span(begin: datetime | None, end: datetime | None) -> str:
    """Time between two instants; nothing if one of them is not there yet."""
    if begin is None or end is None:
        return ""
    seconds = max(0.0, (end - begin).total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def joined(*facts: str) -> str:
    """Facts beside each other, those that say nothing left out."""
    return " · ".join(filter(None, facts))
