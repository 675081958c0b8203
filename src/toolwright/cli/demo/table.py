"""A small table from a CSV file."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from toolwright.core.text import sentence


@dataclass(frozen=True, slots=True)
class Table:
    """Named columns and rows of text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def column(self, name: str) -> Sequence[str]:
        """The values of a column. Raises `ValueError` that names the columns there are."""
        if name not in self.columns:
            close = get_close_matches(name, self.columns, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"There is no column {name!r}, only {', '.join(self.columns)}.{hint}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def totals(self, label: str, value: str) -> dict[str, float]:
        """The sums of one column by another, the largest first."""
        sums: dict[str, float] = {}
        for name, number in zip(self.column(label), self.column(value), strict=True):
            sums[name] = sums.get(name, 0) + (int(number) if number.isdecimal() else float(number))
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def read_table(folder: Path, file: str) -> Table:
    """The table of a CSV file of that folder. Raises `ValueError` where there is no such file."""
    path = folder / Path(file).name
    if path.suffix != ".csv" or not path.is_file():
        there = ", ".join(sorted(each.name for each in folder.glob("*.csv")))
        raise ValueError(sentence(f"There is no file {file!r}, only {there or 'an empty folder'}"))
    with path.open(encoding="utf-8", newline="") as lines:
        columns, *rows = csv.reader(lines)
    return Table(columns, rows)
