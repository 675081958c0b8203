"""`python -m bench [--save] [part …]`: measures every figure and its floor, and compares with the last saved ones."""

import argparse
import importlib
import logging
import platform
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.last import Figures, read_last, save_last, worsened
from bench.row import Row

log = logging.getLogger(__name__)

PARTS = (
    "startup",
    "dispatch",
    "tools",
    "loop",
    "embedding",
    "context",
    "telemetry",
    "redaction",
    "commits",
    "spaces",
    "memory",
    "toolkit",
    "fanout",
    "many_threads",
    "cluster",
    "submission",
    "bodies",
    "reads",
    "http",
    "sandbox",
    "mcp",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the named parts, or all of them if none is named."""
    options = _options(arguments)
    rows: list[Row] = []
    failed: list[str] = []
    for part in options.parts or PARTS:
        try:
            rows.extend(importlib.import_module(f"bench.{part}").run())
        except Exception:
            log.exception("The part %s failed. The others are measured.", part)
            failed.append(part)
    console = Console(width=190)
    last = read_last()
    console.print(table(rows, last))
    for each in worsened(rows, last):
        console.print(each, markup=False)
    if options.save:
        save_last(rows)
    if failed:
        raise SystemExit(f"No figures of: {', '.join(failed)}.")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What things cost, beside a floor.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"all of them, or any of {', '.join(PARTS)}")
    parser.add_argument("--save", action="store_true", help="write the figures to bench/LAST.md")
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in PARTS:
            parser.exit(2, f"There is no part {part!r}: the parts are {', '.join(PARTS)}.\n")
    return options


def table(rows: Sequence[Row], last: Figures) -> Table:
    """Return the table of figures, each with its last ratio (its last value if it has no floor)."""
    title = f"Python {platform.python_version()} on {platform.machine()}"
    columns = (
        "figure",
        "value",
        "unit",
        "floor",
        "ratio",
        "last value",
        "last ratio",
        "target",
        "met",
        "note",
    )
    made = Table(*columns, title=title)
    for row in rows:
        met = "" if row.met is None else "yes" if row.met else "no"
        before = last.get(row.name)
        made.add_row(
            row.name,
            _shown(row.value),
            row.unit,
            _shown(row.floor),
            _shown(row.ratio),
            _shown(before and before.value),
            _shown(before.ratio if before and before.floor else None),
            _shown(row.target),
            met,
            row.note,
        )
    return made


def _shown(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


if __name__ == "__main__":
    main()
