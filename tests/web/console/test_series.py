"""Charts as agents describe them, and as a page draws them."""

from typing import Any

import pytest

from toolwright.core.json_value import JSON
from toolwright.web.console.tool_ui.chart import (
    MAX_ALL,
    MAX_POINTS,
    MAX_SERIES,
    Chart,
    Series,
    options_of,
    read_chart,
)

BARS = Chart(
    title="Visitors", labels=["Mon", "Tue"], series=[Series(name="2026", kind="bar", numbers=[1.0, 2.5])]
)
SAME: dict[str, JSON] = {
    "our own": {
        "type": "bar", "title": "Visitors", "labels": ["Mon", "Tue"], "series": [{"name": "2026", "data": [1, 2.5]}],
    },
    "a kind of its own": {
        "title": "Visitors", "labels": ["Mon", "Tue"], "series": [{"type": "bar", "name": "2026", "data": [1, 2.5]}],
    },
    "Chart.js": {
        "type": "bar", "title": "Visitors",
        "data": {"labels": ["Mon", "Tue"], "datasets": [{"label": "2026", "data": [1, 2.5]}]},
    },
}  # fmt: skip


@pytest.mark.parametrize("described", SAME.values(), ids=SAME.keys())
def test_the_same_chart_is_read_from_each_usual_form(described: JSON) -> None:
    assert read_chart(described) == BARS


def test_points_bring_their_own_labels() -> None:
    chart = read_chart(
        {"type": "pie", "data": [{"name": "Hotel", "value": 420}, {"label": "Food", "value": 180}]}
    )
    assert chart == Chart(
        title="", labels=["Hotel", "Food"], series=[Series(name="", kind="pie", numbers=[420.0, 180.0])]
    )


def test_points_of_a_scatter_chart_are_pairs() -> None:
    points: JSON = [[1, 2], {"x": 3, "y": 4}, ["a", 1], 5, None]
    chart = read_chart({"type": "scatter", "series": [{"name": "s", "data": points}]})
    assert chart is not None
    assert chart.series[0].pairs == [(1.0, 2.0), (3.0, 4.0)]


def test_numbers_that_are_none_leave_gaps() -> None:
    chart = read_chart({"type": "line", "data": [1, None, "two", True, 10**400, "NaN", 3]})
    assert chart is not None
    assert chart.series[0].numbers == [1.0, None, None, None, None, None, 3.0]
    assert chart.labels == ["1", "2", "3", "4", "5", "6", "7"]


NO_CHARTS: list[Any] = [
        None, 3, "text", [], {}, {"type": "bar"}, {"data": []}, {"data": ["a"]}, {"series": {}},
        {"series": [{"data": "x"}]}, {"data": {"datasets": 1}}, {"data": [[]]}, {"labels": [3], "series": 1},
]  # fmt: skip


@pytest.mark.parametrize("described", NO_CHARTS)
def test_what_is_no_chart_is_none(described: JSON) -> None:
    assert read_chart(described) is None


def test_a_chart_is_bounded() -> None:
    many: list[Any] = [{"name": str(number), "data": [1] * 1_000} for number in range(MAX_SERIES + 10)]
    chart = read_chart({"type": "line", "series": many})
    assert chart is not None
    assert len(chart.series) == MAX_SERIES
    assert sum(len(each.numbers) for each in chart.series) <= MAX_ALL
    points: list[JSON] = [1] * (MAX_POINTS + 1)
    single = read_chart({"type": "line", "data": points})
    assert single is not None
    assert len(single.series[0].numbers) == MAX_POINTS


def strings(value: Any) -> list[str]:  # the options of a JavaScript library
    """Return the keys of nested objects."""
    if isinstance(value, dict):
        return [*value] + [key for each in value.values() for key in strings(each)]  # pyright: ignore[reportUnknownVariableType]  # untyped JSON
    return [key for each in value for key in strings(each)] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]  # untyped JSON


def test_no_key_and_no_rule_from_outside_reaches_the_page() -> None:
    rule: JSON = {":formatter": "alert(1)", "formatter": "<b>", "renderItem": "x"}
    described: JSON = {
        "type": "bar",
        "labels": ["a"],
        "series": [
            {"name": "s", "data": [{"value": 1, ":symbol": "alert(1)"}], "label": rule, ":data": "alert(1)"}
        ],
        "tooltip": rule,
        ":graphic": "alert(1)",
    }
    chart = read_chart(described)
    assert chart is not None
    keys = strings(options_of(chart))
    assert keys
    assert not {
        key for key in keys if key.startswith(":") or key in ("formatter", "renderItem", "graphic", "label")
    }
