"""Descriptions of tool parameters."""

import pytest

from toolwright.core.json_value import JSON, JSONObject
from toolwright.web.console.tools import ParameterView, parameters_of, path_of, type_of


def test_parameters_come_in_their_order_with_what_they_mean() -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 3},
            "odd": True,
        },
        "required": ["city"],
    }
    assert [*parameters_of(schema)] == [
        ParameterView(name="city", type="string", required=True, description="Where."),
        ParameterView(name="days", type="integer", default="3"),
        ParameterView(name="odd", type="any"),
    ]


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {}, "required": 7}])
def test_a_schema_without_properties_has_no_parameters(schema: JSONObject) -> None:
    assert [*parameters_of(schema)] == []


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": {"$ref": "#/$defs/Guest"}}, "list of Guest"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"enum": [*range(20)]}, " | ".join([*map(str, range(12)), "…"])),
        ({"const": "fixed"}, '"fixed"'),
        ({"type": 7}, "any"),
        (None, "any"),
    ],
)
def test_a_type_is_told_in_a_few_words(part: JSON, words: str) -> None:
    assert type_of(part) == words


def test_an_infinite_type_is_cut() -> None:
    part: JSONObject = {"type": "array"}
    for _ in range(100):
        part = {"type": "array", "items": part}
    assert type_of(part) == "list of list of list of list of list of any"


@pytest.mark.parametrize(
    ("name", "agent_id", "path"),
    [
        ("search", None, "/tools/search"),
        ("search", "agt_1", "/tools/agt_1/search"),
        ("a/b", None, "/tools/-?name=a%2Fb"),
        ("a?b=1&c", "agt_1", "/tools/agt_1/-?name=a%3Fb%3D1%26c"),
    ],
)
def test_every_name_of_a_tool_has_a_path(name: str, agent_id: str | None, path: str) -> None:
    assert path_of(name, agent_id) == path
