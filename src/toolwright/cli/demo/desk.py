"""Agents of the demo: an analyst with three tools for files of one folder, and a host in a space."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from pathlib import Path

import toolwright as tw
from toolwright.core.text import sentence

WIDTH, ROW, MARGIN, HEAD, GAP = 1000, 46, 40, 96, 16
PAPER, INK, QUIET, FIRST, OTHER = "#ffffff", "#1f2933", "#7b8794", "#d9480f", "#4c6ef5"
LETTER = 11  # approximate width of a letter of the labels
SYSTEM = "You are an analyst. Read the table before you speak of it, draw one chart, and save a short report."
ENDINGS = {"markdown": "md", "text": "txt"}
HOST_SYSTEM = "You book hotels. Look before you offer, ask before you book."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
HOTEL = {"type": "object", "properties": {"hotel": {"type": "string"}}, "required": ["hotel"]}


def draw_bars(path: Path, title: str, bars: Mapping[str, float]) -> None:
    """Write an SVG with one horizontal bar for each entry, labelled with its name and number."""
    label_end = MARGIN + GAP + max(LETTER * len(name) for name in bars)
    room = WIDTH - MARGIN - label_end - 70  # the number after the longest bar fits in 70
    largest = max(bars.values()) or 1.0
    height, end = HEAD + ROW * len(bars) + MARGIN, HEAD + ROW * len(bars) - 4
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        f'font-size="20" dominant-baseline="middle">',
        f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        f'<text x="{MARGIN}" y="{MARGIN}" font-size="30" fill="{INK}">{escape(title)}</text>',
        f'<line x1="{label_end}" y1="{HEAD - 12}" x2="{label_end}" y2="{end}" stroke="{QUIET}"/>',
    ]
    for index, (name, number) in enumerate(bars.items()):
        middle, width = HEAD + ROW * index + ROW // 2 - 8, max(2.0, room * number / largest)
        drawn += [
            f'<text x="{label_end - GAP}" y="{middle}" fill="{INK}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{label_end}" y="{middle - 14}" width="{width:.1f}" height="28" rx="5" '
            f'fill="{OTHER if index else FIRST}"/>',
            f'<text x="{label_end + width + 10:.1f}" y="{middle}" fill="{QUIET}">{number:g}</text>',
        ]
    path.write_text("\n".join([*drawn, "</svg>", ""]), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Named columns and rows of text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def column(self, name: str) -> Sequence[str]:
        """Return the values of a column. Raises `ValueError`, which names the columns, if there is no such column."""
        if name not in self.columns:
            close = get_close_matches(name, self.columns, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(
                f"There is no column {name!r}. The columns are: {', '.join(self.columns)}.{hint}"
            )
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def totals(self, label: str, value: str) -> dict[str, float]:
        """Return the sums of one column by another, the largest first."""
        sums: dict[str, float] = {}
        for name, number in zip(self.column(label), self.column(value), strict=True):
            sums[name] = sums.get(name, 0) + (int(number) if number.isdecimal() else float(number))
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def read_table(folder: Path, file: str) -> TextTable:
    """Return the table of a CSV file of the folder. Raises `ValueError` if there is no such file."""
    path = folder / Path(file).name
    if path.suffix != ".csv" or not path.is_file():
        names = ", ".join(sorted(each.name for each in folder.glob("*.csv")))
        raise ValueError(sentence(f"There is no file {file!r}. The folder has: {names or 'no files'}"))
    with path.open(encoding="utf-8", newline="") as lines:
        columns, *rows = csv.reader(lines)
    return TextTable(columns, rows)


def demo_app(folder: Path, *others: tw.Agent) -> tw.App:
    """Return the app of the analyst, whose tools read and write in the folder, and of the other agents."""
    tools = [_reader(folder), _drawer(folder), _writer(folder)]
    return tw.App(agents=[tw.Agent("analyst", tw.Prompt("analyst", SYSTEM, tools=tools)), *others])


def _reader(folder: Path) -> tw.Tool:
    @tw.tool(read_only=True)
    def read_csv(file: str) -> dict[str, object]:
        """Read a CSV file: its columns, the number of its rows, and the first of them.

        Args:
            file: The file's name.
        """
        table = read_table(folder, file)
        first = [dict(zip(table.columns, row, strict=True)) for row in table.rows[:3]]
        return {"columns": list(table.columns), "rows": len(table.rows), "first": first}

    return read_csv


def _drawer(folder: Path) -> tw.Tool:
    @tw.tool(idempotent=True)
    def draw_chart(file: str, label: str, value: str, title: str) -> dict[str, object]:
        """Draw a bar chart of a CSV file: the sums of one column for each value of another.

        Args:
            file: The file's name.
            label: The column that names the bars.
            value: The column that is summed.
            title: The chart's heading.
        """
        totals = read_table(folder, file).totals(label, value)
        draw_bars(folder / "chart.svg", title, totals)
        return {"chart": "chart.svg", "bars": totals}

    return draw_chart


def _writer(folder: Path) -> tw.Tool:
    @tw.tool(idempotent=True)
    def save_report(title: str, text: str, format: str) -> str:
        """Save a report as a file.

        Args:
            title: The report's heading.
            text: The report's text.
            format: The file format, markdown or text.
        """
        if format not in ENDINGS:
            raise ValueError(f"The format must be {' or '.join(ENDINGS)}, not {format!r}.")
        path = folder / f"report.{ENDINGS[format]}"
        path.write_text(_REPORTS[format](title, text), encoding="utf-8")
        return f"Saved {path.name}, {path.stat().st_size} bytes."

    return save_report


_REPORTS: dict[str, Callable[[str, str], str]] = {
    "markdown": lambda title, text: f"# {title}\n\n{text}\n\n![chart](chart.svg)\n",
    "text": lambda title, text: f"{title}\n{'=' * len(title)}\n\n{text}\n",
}


def host(weather_url: str) -> tw.Agent:
    """Return the host agent. `weather_url` is the address of its weather service."""
    weather = {
        "name": "current_weather",
        "description": "The weather in a city.",
        "inputSchema": CITY,
        "executionType": "gateway",
        "visible": False,
        "readOnly": True,
        "execution": {"url": weather_url, "method": "GET"},
    }
    hotels = {
        "name": "find_hotels",
        "description": "Hotels in a city.",
        "inputSchema": CITY,
        "executionType": "external",
        "visible": False,
        "readOnly": True,
    }
    confirm = {
        "name": "confirm_booking",
        "description": "Ask whether to book a hotel.",
        "inputSchema": HOTEL,
        "executionType": "space",
        "isAsync": True,
    }
    tools = [tw.Tool.from_config(each) for each in (weather, hotels, confirm)]
    return tw.Agent("host", tw.Prompt("host", HOST_SYSTEM, tools=tools), toolkits=["spaces"])
