"""A small table from a CSV file, and its chart."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

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


WIDTH, ROW, MARGIN, HEAD, GAP = 1000, 46, 40, 96, 16
PAPER, INK, QUIET, FIRST, OTHER = "#ffffff", "#1f2933", "#7b8794", "#d9480f", "#4c6ef5"


def draw_bars(path: Path, title: str, bars: Mapping[str, float]) -> None:
    """A PNG with one horizontal bar for each entry, labelled with its name and number."""
    image = Image.new("RGB", (WIDTH, HEAD + ROW * len(bars) + MARGIN), PAPER)
    draw = ImageDraw.Draw(image)
    heading, text = ImageFont.load_default(30), ImageFont.load_default(20)
    draw.text((MARGIN, MARGIN), title, font=heading, fill=INK, anchor="lm")
    left = MARGIN + GAP + max(draw.textlength(name, font=text) for name in bars)
    room = WIDTH - MARGIN - left - 70  # the number behind the longest bar fits in 70
    largest = max(bars.values()) or 1.0
    for place, (name, number) in enumerate(bars.items()):
        middle = HEAD + ROW * place + ROW // 2 - 8
        end = left + max(2.0, room * number / largest)
        draw.text((left - GAP, middle), name, font=text, fill=INK, anchor="rm")
        draw.rounded_rectangle((left, middle - 14, end, middle + 14), 5, fill=OTHER if place else FIRST)
        draw.text((end + 10, middle), f"{number:g}", font=text, fill=QUIET, anchor="lm")
    draw.line((left, HEAD - 12, left, HEAD + ROW * len(bars) - 4), fill=QUIET, width=1)
    image.save(path, "PNG")
