"""`python -m bench [part …]`: every figure with its floor, from one run."""

import importlib
import platform
import sys

from rich.console import Console
from rich.table import Table

from bench.row import Row

PARTS = (
    "startup",
    "dispatch",
    "tools",
    "loop",
    "redaction",
    "commits",
    "spaces",
    "fanout",
    "many_threads",
    "submission",
    "bodies",
    "http",
    "sandbox",
)


def _shown(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def _table(rows: list[Row]) -> Table:
    title = f"Python {platform.python_version()} on {platform.machine()}"
    table = Table("figure", "value", "unit", "floor", "ratio", "target", "met", "note", title=title)
    for row in rows:
        met = "" if row.met is None else "yes" if row.met else "no"
        table.add_row(
            row.name,
            _shown(row.value),
            row.unit,
            _shown(row.floor),
            _shown(row.ratio),
            _shown(row.target),
            met,
            row.note,
        )
    return table


def main() -> None:
    """Measure the parts named, or all of them."""
    rows: list[Row] = []
    for part in sys.argv[1:] or PARTS:
        rows.extend(importlib.import_module(f"bench.{part}").run())
    Console(width=170).print(_table(rows))


if __name__ == "__main__":
    main()
