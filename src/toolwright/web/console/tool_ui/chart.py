"""Tool UI component for charts, and their series of numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from nicegui import ui

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief
from toolwright.core.tools.tool_ui import Submit
from toolwright.core.value import Value
from toolwright.web.console.tool_ui.parts import CallFacts
from toolwright.web.console.tool_ui.showing import draw_plain
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, plain_text

ChartKind: TypeAlias = Literal["bar", "line", "area", "pie", "scatter"]
Number: TypeAlias = float | None
KINDS: Final[Mapping[str, ChartKind]] = {
    "bar": "bar", "line": "line", "area": "area", "pie": "pie", "doughnut": "pie", "scatter": "scatter",
}  # fmt: skip
MAX_SERIES: Final = 50
MAX_POINTS: Final = 5_000  # points per series
MAX_ALL: Final = 20_000  # points of all series: more would keep a browser busy for seconds
_LOOKED_AT: Final = 20  # points searched for a label
_MAX_LABEL: Final = 80  # characters of a label
COLOURS: Final = (
    "#4f6bed", "#17a673", "#e08a00", "#d4526e", "#8e5bd0", "#1f9bcf", "#a0783c", "#6b7a90",
)  # fmt: skip
_QUIET: Final = "#7a8699"  # readable on light and dark backgrounds; overridden by a stylesheet where possible
_FINE: Final = 2_000  # points drawn as SVG shapes, which a stylesheet can style; more are painted on a canvas
_CELLS: Final = 1_000  # rows of the table


class Series(Value):
    """One series of numbers.

    In a scatter chart `points` are pairs. Otherwise they match the chart's labels, in order.
    """

    name: str
    kind: ChartKind
    numbers: Sequence[Number] = ()
    pairs: Sequence[tuple[float, float]] = ()


class Chart(Value):
    """A chart. `labels` are the labels of its axis, or of the slices of a pie."""

    title: str
    labels: Sequence[str]
    series: Sequence[Series]


def read_chart(described: JSON) -> Chart | None:
    """Parse a chart: `{type, title?, labels?, series: [{name?, type?, data}]}`, or `{…, data}` for one series.

    The form of Chart.js is read too: `{type, data: {labels, datasets: [{label, data}]}}`. A point is a number,
    `{name, value}`, or in a scatter chart `[x, y]` or `{x, y}`. Returns None if nothing can be drawn.
    """
    if not isinstance(described, dict):
        return None
    data = described.get("data")
    within = data if isinstance(data, dict) else described  # the form of Chart.js
    listed = within.get("datasets", within.get("series"))
    rows = _list(listed)[:MAX_SERIES] if listed is not None else [described]
    kind = _kind(described.get("type")) or "bar"
    most = min(MAX_POINTS, MAX_ALL // max(len(rows), 1))
    series = [_series(each, kind, most) for each in rows if isinstance(each, dict)]
    series = [each for each in series if each.pairs or any(number is not None for number in each.numbers)]
    if not series:
        return None
    labels = _list(within.get("labels")) or _own_labels(rows)
    count = max(len(each.numbers) for each in series)
    names = [_label(each) for each in labels[:count]]
    names += [str(number + 1) for number in range(len(names), count)]
    title = described.get("title")
    return Chart(title=brief(title, 200) if isinstance(title, str) else "", labels=names, series=series)


def _series(row: JSONObject, usual: ChartKind, most: int) -> Series:
    kind, points = _kind(row.get("type")) or usual, _list(row.get("data"))[:most]
    name = _label(row.get("name", row.get("label")))
    if kind == "scatter":
        pairs = [_pair(each) for each in points]
        return Series(name=name, kind=kind, pairs=[each for each in pairs if each is not None])
    numbers = [_number(each.get("value") if isinstance(each, dict) else each) for each in points]
    return Series(name=name, kind=kind, numbers=numbers)


def _own_labels(rows: Sequence[JSON]) -> Sequence[JSON]:
    """Return the labels in the points of the first series: `{name, value}` or `{label, value}`."""
    points = _list(rows[0].get("data"))[:MAX_POINTS] if rows and isinstance(rows[0], dict) else []
    labels = [each.get("name", each.get("label")) if isinstance(each, dict) else None for each in points]
    return labels if any(each is not None for each in labels[:_LOOKED_AT]) else ()


def _pair(point: JSON) -> tuple[float, float] | None:
    if isinstance(point, dict):
        point = [point.get("x"), point.get("y")]
    if not isinstance(point, list) or len(point) < 2:
        return None
    x, y = _number(point[0]), _number(point[1])
    return None if x is None or y is None else (x, y)


def _number(number: JSON) -> Number:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        return float(number) if math.isfinite(number) else None
    except OverflowError:
        return None


def _kind(name: JSON) -> ChartKind | None:
    return KINDS.get(name) if isinstance(name, str) else None


def _list(part: JSON) -> list[JSON]:
    return part if isinstance(part, list) else []


def _label(part: JSON) -> str:
    if part is None or isinstance(part, dict | list):
        return ""
    return brief(part if isinstance(part, str) else str(part), _MAX_LABEL)


async def draw_chart(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the chart in the result, or in the arguments if there is no result."""
    call = facts.call
    chart = read_chart(call.result) or read_chart(call.args)
    if chart is None:
        if call.status == "streaming":
            plain_text("Loading the chart …", "p", "quiet")
            return
        await draw_plain(visit, facts, submit)
        return
    if chart.title:
        plain_text(chart.title, "h3")
    points = sum(len(each.numbers) + len(each.pairs) for each in chart.series)
    drawing = ui.echart(options_of(chart), renderer="svg" if points <= _FINE else "canvas").classes("chart")
    drawing.props["role"] = "img"
    drawing.props["aria-label"] = f"Chart: {chart.title}" if chart.title else "Chart"
    with box("details"):
        plain_text("Show as a table", "summary", "quiet small")
        _draw_table(chart)
    if call.status == "error":
        plain_text(call.error or "The tool failed.", "div", "error")


def options_of(chart: Chart) -> dict[str, Any]:  # the options of a JavaScript library
    """Return the ECharts options of the chart. External data provides only names and numbers, never option keys."""
    is_pie = chart.series[0].kind == "pie"
    is_named = len(chart.series) > 1 or is_pie
    options: dict[str, Any] = {  # as above
        "color": [*COLOURS],
        "animation": False,
        "textStyle": {"fontFamily": "inherit"},
        "tooltip": {
            "trigger": "item" if is_pie or chart.series[0].kind == "scatter" else "axis",
            "confine": True,
        },
        "series": [_one(each, chart) for each in chart.series],
    }
    if is_named:
        options["legend"] = {"type": "scroll", "bottom": 0, "textStyle": {"color": _QUIET}}
    if is_pie:
        options["series"] = options["series"][:1]
        return options
    line = {"lineStyle": {"color": _QUIET, "opacity": 0.3}}
    label = {"color": _QUIET}
    numeric = any(each.pairs for each in chart.series)
    across: dict[str, Any] = {"type": "value", "scale": True} if numeric else {  # as above
        "type": "category", "data": [*chart.labels],
    }  # fmt: skip
    options["grid"] = {
        "left": 8,
        "right": 16,
        "top": 16,
        "bottom": 40 if is_named else 8,
        "containLabel": True,
    }
    options["xAxis"] = {
        **across,
        "axisLabel": {**label, "hideOverlap": True, "width": 90, "overflow": "truncate"},
        "axisLine": line,
        "splitLine": {"show": False},
    }
    options["yAxis"] = {"type": "value", "axisLabel": label, "splitLine": line}
    return options


def _one(series: Series, chart: Chart) -> dict[str, Any]:  # as above
    if series.kind == "pie":
        parts = [
            {"name": label, "value": number}
            for label, number in zip(chart.labels, series.numbers, strict=False)
            if number is not None
        ]
        return {
            "type": "pie",
            "name": series.name,
            "radius": ["38%", "68%"],
            "center": ["50%", "45%"],
            "data": parts,
            "label": {"color": _QUIET},
        }
    if series.kind == "scatter":
        return {
            "type": "scatter",
            "name": series.name,
            "symbolSize": 8,
            "data": [[*pair] for pair in series.pairs],
        }
    one: dict[str, Any] = {"name": series.name, "data": [*series.numbers]}  # as above
    if series.kind == "bar":
        return {"type": "bar", "barMaxWidth": 42, "itemStyle": {"borderRadius": [3, 3, 0, 0]}, **one}
    area = {"areaStyle": {"opacity": 0.2}} if series.kind == "area" else {}
    return {"type": "line", "showSymbol": len(series.numbers) <= 40, "sampling": "lttb", **area, **one}


def _draw_table(chart: Chart) -> None:
    rows = max(len(each.numbers) + len(each.pairs) for each in chart.series)
    with box("div", "scroll"), box("table", "grid"):
        with box("thead"), box("tr"):
            plain_text("", "th")
            for number, each in enumerate(chart.series):
                plain_text(each.name or f"Series {number + 1}", "th")
        with box("tbody"):
            for row in range(min(rows, _CELLS // (len(chart.series) + 1))):
                with box("tr"):
                    plain_text(chart.labels[row] if row < len(chart.labels) else str(row + 1), "td")
                    for each in chart.series:
                        plain_text(_cell(each, row), "td")


def _cell(series: Series, row: int) -> str:
    if row < len(series.pairs):
        x, y = series.pairs[row]
        return f"{x:g}, {y:g}"
    number = series.numbers[row] if row < len(series.numbers) else None
    return "" if number is None else f"{number:g}"
