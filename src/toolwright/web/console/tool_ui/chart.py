"""The component that draws a chart; its numbers can be read as a table too."""

from typing import Any, Final

from nicegui import ui

from toolwright.core.spaces.tool_ui import Submit
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.plain import draw_plain
from toolwright.web.console.tool_ui.series import Chart, Series, read_chart
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, words

COLOURS: Final = (
    "#4f6bed", "#17a673", "#e08a00", "#d4526e", "#8e5bd0", "#1f9bcf", "#a0783c", "#6b7a90",
)  # fmt: skip
_QUIET: Final = "#7a8699"  # is read on light and on dark; a stylesheet does better where it reaches
_FINE: Final = 2_000  # points that are drawn as shapes, which a stylesheet reaches: more are painted
_CELLS: Final = 1_000  # of the table


async def draw_chart(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The chart that the result describes, else the arguments."""
    call = facts.call
    chart = read_chart(call.result) or read_chart(call.args)
    if chart is None:
        if call.status == "streaming":
            words("The chart comes …", "p", "quiet")
            return
        await draw_plain(visit, facts, submit)
        return
    if chart.title:
        words(chart.title, "h3")
    points = sum(len(each.numbers) + len(each.pairs) for each in chart.series)
    drawing = ui.echart(options_of(chart), renderer="svg" if points <= _FINE else "canvas").classes("chart")
    drawing.props["role"] = "img"
    drawing.props["aria-label"] = f"Chart: {chart.title}" if chart.title else "Chart"
    with box("details"):
        words("As a table", "summary", "quiet small")
        _draw_table(chart)
    if call.status == "error":
        words(call.error or "The tool failed.", "div", "error")


def options_of(chart: Chart) -> dict[str, Any]:  # the options of a library in JavaScript
    """The chart as ECharts draws it: names and numbers from outside, and every key and rule from here."""
    is_pie = chart.series[0].kind == "pie"
    named = len(chart.series) > 1 or is_pie
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
    if named:
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
    options["grid"] = {"left": 8, "right": 16, "top": 16, "bottom": 40 if named else 8, "containLabel": True}
    options["xAxis"] = {
        **across,
        "axisLabel": {**label, "hideOverlap": True},
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
            words("", "th")
            for number, each in enumerate(chart.series):
                words(each.name or f"Series {number + 1}", "th")
        with box("tbody"):
            for row in range(min(rows, _CELLS // (len(chart.series) + 1))):
                with box("tr"):
                    words(chart.labels[row] if row < len(chart.labels) else str(row + 1), "td")
                    for each in chart.series:
                        words(_cell(each, row), "td")


def _cell(series: Series, row: int) -> str:
    if row < len(series.pairs):
        x, y = series.pairs[row]
        return f"{x:g}, {y:g}"
    number = series.numbers[row] if row < len(series.numbers) else None
    return "" if number is None else f"{number:g}"
