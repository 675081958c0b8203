"""The demo's app: an analyst with three tools that work on one folder."""

from collections.abc import Callable
from pathlib import Path

import toolwright as tw
from toolwright.cli.demo.chart import draw_bars
from toolwright.cli.demo.table import read_table

SYSTEM = "You are an analyst. Read the table before you speak of it, draw one chart, and save a short report."
ENDINGS = {"markdown": "md", "text": "txt"}


def demo_app(folder: Path, *others: tw.Agent) -> tw.App:
    """The app of an analyst whose tools read and write in that folder, and of other agents."""
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
            title: Its heading.
            text: What it says.
            format: How it is written.
        """
        if format not in ENDINGS:
            raise ValueError(f"Reports are saved as {' or '.join(ENDINGS)}, not as {format!r}.")
        path = folder / f"report.{ENDINGS[format]}"
        path.write_text(_REPORTS[format](title, text), encoding="utf-8")
        return f"Saved {path.name}, {path.stat().st_size} bytes."

    return save_report


_REPORTS: dict[str, Callable[[str, str], str]] = {
    "markdown": lambda title, text: f"# {title}\n\n{text}\n\n![chart](chart.svg)\n",
    "text": lambda title, text: f"{title}\n{'=' * len(title)}\n\n{text}\n",
}
