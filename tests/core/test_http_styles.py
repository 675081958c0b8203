"""Styles of parameters: each as in the examples of the OpenAPI specification, which come from RFC 6570."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.http.execution import read_fields, trimmed, written_path
from toolwright.core.tools.http.url_template import (
    Parameter,
    Place,
    Style,
    cookie_parts,
    header_text,
    path_text,
    query_parts,
)

COLORS: JSON = ["blue", "black", "brown"]
RGB: JSON = {"R": 100, "G": 200, "B": 150}


def parameter(place: Place, style: Style, explode: bool, reserved: bool = False) -> Parameter:
    return Parameter(name="color", place=place, style=style, explode=explode, reserved=reserved)


@pytest.mark.parametrize(
    ("style", "explode", "empty", "text", "items", "fields"),
    [
        ("simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
        ("simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
        ("label", False, ".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
        ("label", True, ".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
        ("matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
        (
            "matrix",
            True,
            ";color",
            ";color=blue",
            ";color=blue;color=black;color=brown",
            ";R=100;G=200;B=150",
        ),
    ],
)
def test_paths_are_as_in_the_table_of_the_specification(
    style: Style, explode: bool, empty: str, text: str, items: str, fields: str
) -> None:
    made = [path_text(parameter("path", style, explode), each) for each in ("", "blue", COLORS, RGB)]
    assert made == [empty, text, items, fields]


@pytest.mark.parametrize(
    ("style", "explode", "items", "fields"),
    [
        ("form", False, "color=blue,black,brown", "color=R,100,G,200,B,150"),
        ("form", True, "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
        ("spaceDelimited", False, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
        (
            "deepObject",
            True,
            "color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown",
            "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ),
    ],
)
def test_queries_are_as_in_the_table_of_the_specification(
    style: Style, explode: bool, items: str, fields: str
) -> None:
    made = [query_parts(parameter("query", style, explode), each) for each in ("blue", None, COLORS, RGB)]
    assert ["&".join(parts) for parts in made] == ["color=blue", "", items, fields]


def test_a_deep_object_goes_as_deep_as_its_value() -> None:
    items: JSON = [{"price": "p_1", "tags": ["a", "b"]}, {"price": None}]
    parts = query_parts(parameter("query", "deepObject", True), {"items": items, "on": True})
    assert parse_qsl("&".join(parts)) == [
        ("color[items][0][price]", "p_1"),
        ("color[items][0][tags][]", "a"),
        ("color[items][0][tags][]", "b"),
        ("color[on]", "true"),
    ]


def test_headers_and_cookies_and_json() -> None:
    assert header_text(parameter("header", "simple", False), COLORS) == "blue,black,brown"
    assert header_text(parameter("header", "simple", True), RGB) == "R=100,G=200,B=150"
    assert header_text(parameter("header", "json", False), {"a": [1]}) == '{"a":[1]}'
    assert cookie_parts(parameter("cookie", "form", False), COLORS) == ["color=blue,black,brown"]
    assert cookie_parts(parameter("cookie", "form", True), {"a": "x; y"}) == ["a=x%3B%20y"]
    assert query_parts(parameter("query", "json", False), {"a": [1]}) == ["color=%7B%22a%22%3A%5B1%5D%7D"]


def test_reserved_characters_stay_but_for_those_that_end_a_parameter() -> None:
    [part] = query_parts(parameter("query", "form", True, reserved=True), "/a?b:c,d&e=f#g h+i")
    assert part == "color=/a?b:c,d%26e%3Df%23g%20h%2Bi"


@given(st.text(max_size=20), st.sampled_from(["form", "spaceDelimited", "pipeDelimited", "deepObject"]))
def test_no_text_leaves_its_parameter(text: str, style: Style) -> None:
    [part] = query_parts(parameter("query", style, True), text.encode("utf-8", "ignore").decode())
    assert part.count("&") == 0 and part.count("=") == 1 and "#" not in part


ANSWER: JSONObject = {
    "id": 1,
    "owner": {"login": "ada", "key": "k"},
    "tags": [{"name": "a", "size": 3}, "b"],
    "a.b": {"c": 1, "d": 2},
}


TRIMMED: list[tuple[tuple[str, ...], JSON]] = [
    ((), ANSWER),
    (("id", "owner.login"), {"id": 1, "owner": {"login": "ada"}}),
    (("owner", "owner.login"), {"owner": {"login": "ada", "key": "k"}}),
    (("owner.login", "owner"), {"owner": {"login": "ada", "key": "k"}}),
    (("tags.name",), {"tags": [{"name": "a"}, "b"]}),
    (("*.c",), {"id": 1, "owner": {}, "tags": [{}, "b"], "a.b": {"c": 1}}),
    (("a\\.b.d",), {"a.b": {"d": 2}}),
    (("nothing",), {}),
]


@pytest.mark.parametrize(("paths", "kept"), TRIMMED)
def test_an_answer_is_trimmed_to_its_fields(paths: tuple[str, ...], kept: JSON) -> None:
    assert trimmed(ANSWER, read_fields(paths)) == kept


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_a_written_path_is_read_as_the_same_names(names: list[str]) -> None:
    fields = read_fields([written_path(names)])
    for name in names:
        assert [*fields] == [name]
        fields = fields[name]
