"""Tool UI component for charts, and their series of numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from nicegui import ui

from toolwright.core.json_text import NotJson, parse_json
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
    "bar": "bar", "column": "bar", "histogram": "bar", "line": "line", "lines": "line", "area": "area",
    "pie": "pie", "donut": "pie", "doughnut": "pie", "scatter": "scatter", "scattergl": "scatter", "bubble": "scatter",
}  # fmt: skip
MOST_SERIES: Final = 50
MOST_POINTS: Final = 5_000  # points per series
MOST_ALL: Final = 20_000  # points of all series: more would keep a browser busy for seconds
_LOOKED_AT: Final = 20  # points searched for a label
_LONGEST: Final = 80  # characters of a label
_LONGEST_TEXT: Final = 1_000_000  # characters of a chart given as JSON text
_WRAPPED: Final = ("chart", "spec", "option", "options", "config", "figure")
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


class _Row(Value):
    """A series as parsed."""

    name: str
    kind: ChartKind
    points: Sequence[JSON]
    labels: Sequence[JSON] = ()


def read_chart(described: JSON) -> Chart | None:
    """Parse a chart in one of the common formats. Returns None if nothing can be drawn."""
    for candidate in _candidates(described):
        chart = _read(candidate)
        if chart is not None:
            return chart
    return None


def _candidates(described: JSON) -> Iterator[JSONObject]:
    whole = _parsed(described)
    if isinstance(whole, dict):
        yield whole
        for name in _WRAPPED:
            within = _parsed(whole.get(name))
            if isinstance(within, dict):
                yield within


def _parsed(described: JSON) -> JSON:
    """Parse a chart given as JSON text, which models often write."""
    if (
        not isinstance(described, str)
        or not described.lstrip().startswith("{")
        or len(described) > _LONGEST_TEXT
    ):
        return described
    try:
        return parse_json(described)
    except NotJson:
        return None


def _read(described: JSONObject) -> Chart | None:
    labels, rows = _rows(described)
    rows = rows[:MOST_SERIES]
    if not rows:
        return None
    most = min(MOST_POINTS, MOST_ALL // len(rows))
    if not labels:
        labels = next(
            (labels_of_row for row in rows if (labels_of_row := row.labels or _own_labels(row))), ()
        )
    series = [_series(row, most) for row in rows]
    series = [each for each in series if each.pairs or any(number is not None for number in each.numbers)]
    if not series:
        return None
    count = max(len(each.numbers) for each in series)
    labels_of_row = [_label(each) for each in labels[:count]]
    labels_of_row += [str(number + 1) for number in range(len(labels_of_row), count)]
    return Chart(title=_title(described), labels=labels_of_row, series=series)


def _rows(described: JSONObject) -> tuple[Sequence[JSON], Sequence[_Row]]:
    """Return the labels of the axis and the series."""
    kind = _kind(described.get("type"), described.get("chartType"), described.get("kind"))
    data, series = described.get("data"), described.get("series")
    if isinstance(data, dict):  # format of Chart.js
        labels = _list(data.get("labels"))
        return labels, _objects(data.get("datasets", data.get("series")), kind or "bar")
    labels = _list(described.get("labels", described.get("x", described.get("categories"))))
    axis = described.get("xAxis")
    if not labels and axis is not None:  # format of ECharts
        labels = _list(_first(axis).get("data"))
    if isinstance(series, list):
        rows = _objects(series, kind or "line") or [_row("", kind or "bar", series)]
        return labels, rows
    if not isinstance(data, list):
        return labels, [_row("", kind or "line", _list(described.get("y", described.get("values"))))]
    if any(_is_trace(each) for each in data):  # format of Plotly
        return (), [_trace(each, kind) for each in data if isinstance(each, dict)]
    return labels, [_row("", kind or "bar", data)]


def _objects(listed: JSON, kind: ChartKind) -> Sequence[_Row]:
    """Return series that are objects with points, or lists of points."""
    rows: list[_Row] = []
    for each in _list(listed)[:MOST_SERIES]:
        if isinstance(each, list):
            rows.append(_row("", kind, each))
        elif isinstance(each, dict) and isinstance(points := each.get("data", each.get("values")), list):
            own_kind = _kind(each.get("type")) or kind
            if own_kind == "line" and each.get("areaStyle") is not None:
                own_kind = "area"
            rows.append(_row(_label(each.get("name", each.get("label"))), own_kind, points))
    return rows


def _is_trace(each: JSON) -> bool:
    return isinstance(each, dict) and any(isinstance(each.get(name), list) for name in ("x", "y", "values"))


def _trace(trace: JSONObject, usual: ChartKind | None) -> _Row:
    kind = _kind(trace.get("type")) or usual or "line"
    mode = trace.get("mode")
    if kind == "scatter" and (mode is None or (isinstance(mode, str) and "lines" in mode)):
        kind = "line"
    if trace.get("fill") not in (None, "none") and kind == "line":
        kind = "area"
    name = _label(trace.get("name"))
    if kind == "pie":
        return _row(name, kind, _list(trace.get("values")), _list(trace.get("labels")))
    xs, ys = _list(trace.get("x")), _list(trace.get("y"))
    if kind == "scatter":
        return _row(name, kind, [[x, y] for x, y in zip(xs, ys, strict=False)])
    return _row(name, kind, ys, xs)


def _row(name: str, kind: ChartKind, points: Sequence[JSON], labels: Sequence[JSON] = ()) -> _Row:
    return _Row(name=name, kind=kind, points=points, labels=labels)


def _own_labels(row: _Row) -> Sequence[JSON]:
    """Return the labels in the points themselves: `{name, value}`, `{x, y}`, or `[x, y]`."""
    if row.kind == "scatter" or all(_label_of(each) is None for each in row.points[:_LOOKED_AT]):
        return ()
    return [_label_of(each) for each in row.points[:MOST_POINTS]]


def _series(row: _Row, most: int) -> Series:
    points = row.points[:most]
    if row.kind == "scatter":
        pairs = [_pair(number, each) for number, each in enumerate(points)]
        return Series(name=row.name, kind="scatter", pairs=[each for each in pairs if each is not None])
    return Series(name=row.name, kind=row.kind, numbers=[_number(_value_of(each)) for each in points])


def _pair(place: int, point: JSON) -> tuple[float, float] | None:
    y = _number(_value_of(point))
    if isinstance(point, list) and len(point) > 1:
        x = _number(point[0])
    else:
        x = _number(point.get("x")) if isinstance(point, dict) else float(place + 1)
    return None if x is None or y is None else (x, y)


def _value_of(point: JSON) -> JSON:
    if isinstance(point, dict):
        value_ = next((point[name] for name in ("value", "y", "count", "amount") if name in point), None)
        return value_[1] if isinstance(value_, list) and len(value_) > 1 else value_
    if isinstance(point, list):
        return point[1] if len(point) > 1 else None
    return point


def _label_of(point: JSON) -> JSON:
    if isinstance(point, dict):
        return next((point[name] for name in ("name", "label", "x", "category") if name in point), None)
    return point[0] if isinstance(point, list) and len(point) > 1 else None


def _number(number: JSON) -> Number:
    if isinstance(number, str) and len(number) < _LONGEST:
        try:
            number = float(number)
        except ValueError:
            return None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    try:
        return float(number) if math.isfinite(number) else None
    except OverflowError:
        return None


def _kind(*names: JSON) -> ChartKind | None:
    return next(
        (KINDS[name.lower()] for name in names if isinstance(name, str) and name.lower() in KINDS), None
    )


def _title(described: JSONObject) -> str:
    title = described.get("title")
    if title is None:
        title = _first(described.get("layout")).get("title")
    if isinstance(title, list | dict):
        title = _first(title).get("text")
    return brief(title, 200) if isinstance(title, str) else ""


def _first(part: JSON) -> JSONObject:
    """Return the object, or the first object of a list."""
    if isinstance(part, list):
        part = part[0] if part else None
    return part if isinstance(part, dict) else {}


def _list(part: JSON) -> list[JSON]:
    return part if isinstance(part, list) else []


def _label(part: JSON) -> str:
    if part is None or isinstance(part, dict | list):
        return ""
    return brief(part if isinstance(part, str) else str(part), _LONGEST)


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
