"""The tool calls that a view has seen, and the table of them."""

import json
from dataclasses import dataclass
from datetime import datetime

from rich import box
from rich.table import Table
from rich.text import Text

from toolwright.core.json_value import JSON
from toolwright.wire.text import clean_text

SHORT = 160


@dataclass(slots=True, kw_only=True)
class SeenCall:
    """One call, as far as it has been seen. `seconds` is None for a call that did not begin."""

    name: str
    arguments: str
    shown: bool = False
    started: datetime | None = None
    status: str = "open"
    seconds: float | None = None


def spelled(arguments: str) -> str:
    """JSON arguments as a reader of Python expects them: `city="Rome", limit=3`."""
    try:
        given: JSON = json.loads(arguments or "{}")
    except ValueError:
        return shortened(arguments)
    if not isinstance(given, dict):
        return shortened(arguments)
    return shortened(
        ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in given.items())
    )


def shortened(value: JSON) -> str:
    """A value in one line of at most 160 characters, safe to print."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(clean_text(text).split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 1]}…"


def duration(seconds: float | None) -> str:
    """`12 ms` or `1.2 s`; a dash where there is none."""
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def table_of(calls: list[SeenCall]) -> Table:
    """A table of the calls, in their order."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("#", justify="right", min_width=2)
    table.add_column("tool", no_wrap=True)
    table.add_column("arguments", overflow="ellipsis", no_wrap=True, max_width=40)
    table.add_column("status", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True, min_width=6)
    for number, call in enumerate(calls, 1):
        style = {"done": "green", "error": "red"}.get(call.status, "yellow")
        table.add_row(
            str(number),
            Text(call.name),
            Text(call.arguments),
            Text(call.status, style),
            duration(call.seconds),
        )
    return table
