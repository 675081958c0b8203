"""Data that components read from calls: tables, options, progress, pictures, results; and how much of it they show."""

import base64
import json
from typing import Any

import pytest

from toolwright.core.json_value import JSON
from toolwright.core.tools.tool_ui import ShownCall
from toolwright.web.console.tool_ui.asking import MAX_OPTIONS, Option, read_options, takes_several
from toolwright.web.console.tool_ui.card import usual_component
from toolwright.web.console.tool_ui.parts import MAX_ITEMS, cut_json
from toolwright.web.console.tool_ui.showing import (
    MAX_COLUMNS,
    MAX_INLINE,
    ShownProgress,
    inline_image,
    read_progress,
    read_result,
    read_table,
)

PNG = f"data:image/png;base64,{base64.b64encode(b'bytes').decode()}"


def read(described: JSON) -> list[list[str]] | None:
    """Return titles and cells of a table."""
    table = read_table(described)
    if table is None:
        return None
    return [[title for _, title in table.columns], *([*table.cells(row)] for row in range(len(table.rows)))]


@pytest.mark.parametrize(
    "described",
    [
        {"columns": ["a", "b"], "rows": [[1, "x"], [None, True]]},
        {"columns": [{"key": "a"}, {"field": "b", "label": "b"}], "rows": [{"a": 1, "b": "x"}, {"b": True}]},
        {"headers": ["a", "b"], "rows": [[1, "x"], [None, True]]},
        [{"a": 1, "b": "x"}, {"b": True}],
        {"rows": [{"a": 1, "b": "x"}, {"b": True, "a": None}]},
        {"data": [{"a": 1, "b": "x"}, {"b": True}]},
    ],
)
def test_the_same_table_is_read_from_each_usual_form(described: JSON) -> None:
    assert read(described) == [["a", "b"], ["1", "x"], ["", "true"]]


def test_lists_of_lists_are_a_table_without_titles() -> None:
    assert read([[1, 2], [3]]) == [["", ""], ["1", "2"], ["3", ""]]


@pytest.mark.parametrize(
    "described", [None, "text", 3, [], {}, [1, 2], {"rows": "x"}, {"rows": []}, {"data": {}}]
)
def test_what_is_no_table_is_none(described: JSON) -> None:
    assert read(described) is None


def test_a_table_without_rows_keeps_its_columns() -> None:
    assert read({"columns": ["a"], "rows": []}) == [["a"]]


def test_a_table_and_its_cells_are_bounded() -> None:
    table = read_table([{str(number): "x" * 10_000 for number in range(MAX_COLUMNS + 5)}])
    assert table is not None
    cells = table.cells(0)
    assert len(cells) == MAX_COLUMNS
    assert all(len(cell) < 600 for cell in cells)


def test_options_are_texts_values_or_objects() -> None:
    given: JSON = [
        "a",
        2,
        True,
        {"label": "B", "value": {"id": 1}, "description": "d"},
        {"id": "c", "name": "C"},
    ]
    assert read_options({"options": given}) == [
        Option(label="a", value="a"),
        Option(label="2", value=2),
        Option(label="true", value=True),
        Option(label="B", value={"id": 1}, about="d"),
        Option(label="C", value="c"),
    ]


NO_OPTIONS: list[Any] = [None, "x", {}, {"options": "a"}, {"options": [None, [], {}, {"label": []}]}]


@pytest.mark.parametrize("args", NO_OPTIONS)
def test_what_are_no_options_are_none(args: JSON) -> None:
    assert list(read_options(args)) == []


def test_options_are_bounded() -> None:
    many: list[JSON] = ["x"] * (MAX_OPTIONS + 1)
    assert len(read_options({"options": many})) == MAX_OPTIONS


def test_several_may_be_chosen_only_where_the_call_says_so() -> None:
    assert takes_several({"multiple": True})
    assert not takes_several({"multiple": "yes"})
    assert not takes_several(None)


def call(args: JSON = None, progress: tuple[float, float | None, str] | None = None) -> ShownCall:
    return ShownCall(id="call_1", name="x", args=args, status="running", progress=progress)


@pytest.mark.parametrize(
    ("shown", "progress"),
    [
        (call(progress=(3, 8, "half")), ShownProgress(share=0.375, label="3 of 8", text="half")),
        (call({"done": 3, "total": 8, "text": "t"}), ShownProgress(share=0.375, label="3 of 8", text="t")),
        (call({"percent": 40}), ShownProgress(share=0.4, label="40%", text="")),
        (call({"progress": 0.5}), ShownProgress(share=0.5, label="50%", text="")),
        (call({"done": 12}), ShownProgress(share=None, label="12", text="")),
        (call({"done": 12, "total": 8}), ShownProgress(share=1.0, label="12 of 8", text="")),
        (call({"done": 12, "total": 0}), ShownProgress(share=None, label="12", text="")),
        (call({"done": True}), None),
        (call("text"), None),
    ],
)
def test_progress_is_read_of_what_the_call_says_else_of_its_arguments(
    shown: ShownCall, progress: ShownProgress | None
) -> None:
    assert read_progress(shown) == progress


@pytest.mark.parametrize(
    "described",
    [
        "data:image/svg+xml;base64,AAAA", "data:text/html;base64,AAAA", "data:image/png,AAAA", "https://example.org/x.png",
        'data:image/png;base64,AAAA" onerror="alert(1)', "javascript:alert(1)", 3, None,
        f"data:image/png;base64,{'A' * (MAX_INLINE * 2)}",
    ],
)  # fmt: skip
def test_only_small_pictures_of_types_without_scripts_are_shown_from_arguments(described: JSON) -> None:
    assert inline_image({"url": described}) is None
    assert inline_image({"url": PNG}) == inline_image({"url": described, "src": PNG}) == PNG


@pytest.mark.parametrize(
    ("entered", "result"),
    [("2.5", 2.5), (' {"a": [1]} ', {"a": [1]}), ("null", None), ("two kilos", "two kilos")],
)
def test_an_answer_is_json_or_text(entered: str, result: JSON) -> None:
    assert read_result(entered) == result


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("confirmAction", "confirmation"),
        ("confirm_booking", "confirmation"),
        ("show-table", "table"),
        ("renderChart", "chart"),
        ("showImage", "image"),
        ("askChoice", "choice"),
        ("refund", None),
    ],
)
def test_a_component_is_found_by_a_usual_name(name: str, component: str | None) -> None:
    assert usual_component(name) == component


def test_a_large_value_is_cut_to_a_readable_length() -> None:
    large: JSON = {"rows": [{"text": "x" * 100} for _ in range(10_000)], "text": "y" * 10_000_000}
    cut, less = cut_json(large)
    assert less
    assert len(json.dumps(cut)) < 60_000
    assert cut_json({"a": [1, "x", None]}) == ({"a": [1, "x", None]}, False)
    cut, less = cut_json([*range(MAX_ITEMS + 3)])
    assert isinstance(cut, list)
    assert (cut[-1], less) == ("… 3 more", True)
