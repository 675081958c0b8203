"""The last saved figures, `bench/LAST.md`: read, compare with new ones, write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.row import Row

LAST = Path(__file__).with_name("LAST.md")
WORSE = 1.25  # times the last ratio
HEAD = "# The last figures\n\n`make bench-save` writes them, `make bench` compares with them.\n\n"
COLUMNS = ("figure", "value", "unit", "floor", "ratio")


@dataclass(frozen=True, slots=True)
class LastFigure:
    """A saved figure. Without a floor its ratio is the value itself."""

    value: float
    unit: str
    floor: float | None

    @property
    def ratio(self) -> float:
        """The value as a multiple of the floor."""
        return self.value / self.floor if self.floor else self.value


Figures = Mapping[str, LastFigure]


def read_last(path: Path = LAST) -> dict[str, LastFigure]:
    """Return the saved figures by name; empty if there is no file yet."""
    if not path.exists():
        return {}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    figures: dict[str, LastFigure] = {}
    for line in lines[1:]:
        name, value, unit, floor, _ = [cell.strip() for cell in line.strip("|").split("|")]
        figures[name] = LastFigure(float(value), unit, None if floor == "–" else float(floor))
    return figures


def save_last(rows: Sequence[Row], path: Path = LAST) -> None:
    """Save the figures. Figures that were not measured this time are kept."""
    figures = read_last(path) | {row.name: LastFigure(row.value, row.unit, row.floor) for row in rows}
    lines = [_line(COLUMNS), "|" + "---|" * len(COLUMNS)]
    for name, figure in figures.items():
        ratio = "–" if not figure.floor else f"{figure.ratio:.2f}"
        floor = "–" if not figure.floor else _written(figure.floor)
        lines.append(_line((name, _written(figure.value), figure.unit, floor, ratio)))
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def worsened(rows: Sequence[Row], last: Figures) -> list[str]:
    """Return a sentence for each figure whose ratio has become worse by a quarter or more."""
    sentences = (_comparison(row, last[row.name]) for row in rows if row.name in last)
    return [sentence for sentence in sentences if sentence is not None]


def _comparison(row: Row, last: LastFigure) -> str | None:
    """Return a sentence if the figure has become worse, by value if one of the two has no floor."""
    unit, new, old = row.unit, row.value, last.value
    if row.ratio is not None and last.floor:
        unit, new, old = "floors", row.ratio, last.ratio
    if new < old * WORSE if row.better == "less" else new * WORSE > old:
        return None
    return f"{row.name} has become worse: {new:.2f} {unit}, it was {old:.2f}."


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _written(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.4g}"
