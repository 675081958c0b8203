"""Composed schemas: the document's example, every edge case, and that they accept the arguments of their tools."""

import json
from copy import deepcopy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toolwright as tw
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.compose import closed_form, strict_form, with_call, without_nulls
from toolwright.core.tools.tool import Tool, tool

GREET: JSONObject = {
    "type": "object",
    "properties": {"userName": {"type": "string"}},
    "required": ["userName"],
}
SUMMARY: JSONObject = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}
PRINTED = """
{
  "type": "object",
  "properties": {
    "output": {
      "type": ["object", "null"],
      "properties": {
        "summary": { "type": "string" }
      },
      "required": ["summary"],
      "additionalProperties": false
    },
    "calls": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {
          "_tool": { "const": "greetUser" },
          "userName": { "type": "string" }
        },
        "required": ["_tool", "userName"]
      }
    }
  },
  "required": ["calls", "output"]
}
"""


@tool(name="add_up", timeout=None)
async def add_up(first: int, second: int = 0) -> int:
    """Add two numbers."""
    return first + second


def accepts(schema: JSONObject, answer: JSON) -> bool:
    return jsonschema_rs.validator_for(schema, offline=True).is_valid(answer)


def call_schema(name: str, schema: JSONObject, **more: Any) -> JSONObject:  # options of compose
    composed: Any = tw.compose(SUMMARY, {name: schema}, **more)  # indexed JSON
    return composed["properties"]["calls"]["items"]


def output_of(schema: JSONObject) -> JSON:
    composed: Any = tw.compose(schema, {})  # indexed JSON
    return composed["properties"]["output"]


def test_the_example_of_the_document_is_composed_as_it_is_printed() -> None:
    before = json.dumps([SUMMARY, GREET])
    composed = tw.compose(SUMMARY, {"greetUser": GREET})
    assert json.dumps(composed) == json.dumps(json.loads(PRINTED))  # including the order of keys
    assert json.dumps([SUMMARY, GREET]) == before


def test_what_is_composed_shares_nothing_with_what_was_handed_over() -> None:
    composed: Any = tw.compose(SUMMARY, {"greetUser": GREET}, reasoning=True)  # indexed JSON
    composed["properties"]["output"]["properties"]["summary"]["type"] = "changed"
    composed["properties"]["calls"]["items"]["properties"]["_reasoningForCall"]["type"] = "changed"
    composed["properties"]["calls"]["items"]["required"].append("changed")
    again: Any = tw.compose(SUMMARY, {"greetUser": GREET}, reasoning=True)  # indexed JSON
    assert "changed" not in json.dumps([again, SUMMARY, GREET])
    from_tools: Any = tw.compose(SUMMARY, [add_up])  # indexed JSON
    from_tools["properties"]["calls"]["items"]["properties"]["first"]["type"] = "changed"
    choice = Tool.from_schema("t", {"properties": {"a": {"enum": ["x"]}}})
    of_choice: Any = tw.compose(SUMMARY, [choice])  # indexed JSON
    of_choice["properties"]["calls"]["items"]["properties"]["a"]["enum"].append("changed")
    assert "changed" not in json.dumps([add_up.parameters, choice.parameters])


def test_without_tools_there_are_no_calls() -> None:
    composed = tw.compose(SUMMARY, [])
    assert composed["properties"]["calls"] == {"type": "array", "maxItems": 0}  # type: ignore[index,call-overload]
    assert accepts(composed, {"calls": [], "output": {"summary": "x"}})
    assert not accepts(composed, {"calls": [{}], "output": None})


def test_several_tools_are_alternatives_in_their_order() -> None:
    items: Any = tw.compose(SUMMARY, {"b": GREET, "a": GREET, "c": GREET})  # indexed JSON
    branches = items["properties"]["calls"]["items"]["anyOf"]
    assert [each["properties"]["_tool"] for each in branches] == [
        {"const": "b"},
        {"const": "a"},
        {"const": "c"},
    ]


def test_tools_of_other_kinds_are_called_too() -> None:
    lookup = Tool.from_config(
        {"name": "lookUp", "description": "Look up.", "inputSchema": GREET, "executionType": "external"}
    )
    composed = tw.compose(SUMMARY, [add_up, lookup, Tool.from_schema("greetUser", GREET)])
    items: Any = composed["properties"]["calls"]["items"]["anyOf"]  # type: ignore[index,call-overload]  # an object
    assert items[0] == {
        "type": "object",
        "description": "Add two numbers.",
        "properties": {
            "_tool": {"const": "add_up"},
            "first": {"type": "integer"},
            "second": {"type": "integer", "default": 0},
        },
        "required": ["_tool", "first"],
        "additionalProperties": False,
    }
    assert items[1]["description"] == "Look up."
    assert "description" not in items[2]


def test_a_latent_tool_is_asked_for_its_output_and_no_other() -> None:
    schema: JSONObject = {
        "title": "Mood",
        "properties": {
            "_tool": {"type": "string", "const": "mood"},
            "_output": {"enum": ["good", "bad"]},
            "_instance": {"type": "string"},
            "_outputPath": {"const": "†state.mood"},
            "text": {"type": "string"},
        },
        "description": "Tell the mood.",
    }
    item = call_schema("mood", schema)
    assert item == {
        "type": "object",
        "title": "Mood",
        "description": "Tell the mood.",
        "properties": {
            "_tool": {"const": "mood"},
            "text": {"type": "string"},
            "_instance": {"type": "string"},
            "_output": {"enum": ["good", "bad"]},
        },
        "required": ["_tool", "_output"],
    }
    assert [*item["properties"]] == ["_tool", "text", "_instance", "_output"]  # type: ignore[misc]  # an object
    explicit = call_schema("mood", schema, explicit=["mood"])
    assert "_output" not in json.dumps(explicit)
    assert explicit["required"] == ["_tool"]
    by_activity: JSONObject = {"properties": {**schema["properties"], "_activity": {"const": "read"}}}  # type: ignore[dict-item]
    assert "_output" not in json.dumps(call_schema("mood", by_activity))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("reasoning", [False, True])
def test_one_more_tool_is_composed_as_if_it_had_been_there(count: int, reasoning: bool) -> None:
    tools = [
        Tool(name=f"tool{n}", description="One.", parameters={"type": "object"}, handler=len)
        for n in range(3)
    ]
    own, more = tools[:count], tools[-1]
    schema: JSONObject = {"type": "object"}
    composed = tw.compose(schema, own, reasoning=reasoning)
    before = deepcopy(composed)
    whole = tw.compose(schema, [*own, more], reasoning=reasoning)
    assert with_call(composed, more, reasoning=reasoning) == whole
    assert composed == before


def test_a_reason_is_asked_for_where_it_is_wanted() -> None:
    item: Any = call_schema("greetUser", GREET, reasoning=True)  # indexed JSON
    assert [*item["properties"]] == ["_tool", "_reasoningForCall", "userName"]
    assert item["properties"]["_reasoningForCall"]["type"] == "string"
    assert item["required"] == ["_tool", "userName"]
    assert "_reasoningForCall" not in json.dumps(call_schema("greetUser", GREET))


def test_names_of_parameters_mean_nothing_elsewhere() -> None:
    names = [
        "output",
        "calls",
        "type",
        "properties",
        "$ref",
        "$defs",
        "a.b",
        'q"uote',
        "it's",
        "a/b~c%",
        "",
        "ü",
    ]
    schema: JSONObject = {"properties": {name: {"const": name} for name in names}, "required": [*names]}
    composed = tw.compose(SUMMARY, {'to"ol.x': schema})
    call: JSONObject = {"_tool": 'to"ol.x', **{name: name for name in names}}
    assert accepts(composed, {"calls": [call], "output": None})
    for name in names:
        assert not accepts(composed, {"calls": [{**call, name: 1}], "output": None})
    assert "$defs" not in composed


@pytest.mark.parametrize(
    ("schema", "output"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": "null"}, {"type": "null"}),
        ({"type": "object"}, {"type": ["object", "null"], "additionalProperties": False}),
        (
            {"type": "object", "additionalProperties": True},
            {"type": ["object", "null"], "additionalProperties": True},
        ),
        (
            {"additionalProperties": {"type": "string"}, "type": "object"},
            {"additionalProperties": {"type": "string"}, "type": ["object", "null"]},
        ),
        ({"type": "string", "enum": ["a"]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"const": 1}, {"anyOf": [{"const": 1}, {"type": "null"}]}),
        (
            {"type": ["string", "integer"]},
            {"anyOf": [{"type": ["string", "integer"]}, {"type": "null"}]},
        ),
        (
            {"type": "object", "anyOf": [{"type": "object"}]},
            {"anyOf": [{"type": "object", "anyOf": [{"type": "object"}]}, {"type": "null"}]},
        ),
        ({}, {"anyOf": [{}, {"type": "null"}]}),
        (
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
            {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
        ),
    ],
)
def test_an_output_may_be_null(schema: JSONObject, output: JSONObject) -> None:
    assert json.dumps(output_of(schema)) == json.dumps(output)
    composed = tw.compose(schema, {})
    assert accepts(composed, {"calls": [], "output": None})
    assert not accepts(composed, {"calls": []})


def test_definitions_come_along_without_a_clash() -> None:
    def with_item(kind: str) -> JSONObject:
        return {
            "type": "object",
            "properties": {"item": {"$ref": "#/$defs/Item"}},
            "required": ["item"],
            "$defs": {"Item": {"$ref": "#/$defs/Kind"}, "Kind": {"type": kind}, "Unused": {}},
        }

    composed = tw.compose(with_item("string"), {"count it": with_item("integer"), "x": with_item("boolean")})
    assert composed["$defs"] == {
        "Item": {"$ref": "#/$defs/Kind"},
        "Kind": {"type": "string"},
        "count_it.Item": {"$ref": "#/$defs/count_it.Kind"},
        "count_it.Kind": {"type": "integer"},
        "x.Item": {"$ref": "#/$defs/x.Kind"},
        "x.Kind": {"type": "boolean"},
    }
    assert [*composed] == ["type", "properties", "required", "$defs"]
    good: JSONObject = {
        "output": {"item": "x"},
        "calls": [{"_tool": "count it", "item": 1}, {"_tool": "x", "item": True}],
    }
    assert accepts(composed, good)
    wrong: list[JSONObject] = [{"_tool": "count it", "item": "1"}, {"_tool": "x", "item": 1}]
    for call in wrong:
        assert not accepts(composed, {**good, "calls": [call]})


def test_a_schema_that_refers_to_itself_asks_for_no_tool_within() -> None:
    tree: JSONObject = {
        "properties": {"_tool": {"const": "tree"}, "below": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["_tool", "below"],
        "additionalProperties": False,
    }
    composed = tw.compose({"type": "object", "properties": {"again": {"$ref": "#"}}}, {"tree": tree})
    deep: JSONObject = {"_tool": "tree", "below": [{"below": [{"below": []}]}]}
    assert accepts(composed, {"calls": [deep], "output": {"again": {"again": {}}}})
    assert not accepts(composed, {"calls": [{"_tool": "tree", "below": [{}]}], "output": None})
    assert not accepts(composed, {"calls": [], "output": {"again": {"again": None}}})


@pytest.mark.parametrize(
    ("output", "tools", "options", "words"),
    [
        (5, {}, {}, "The output schema is invalid: must be an object"),
        ({"type": "bogus"}, {}, {}, "The output schema is invalid: type is not valid JSON Schema"),
        ({"items": {"$ref": "https://example.com/"}}, {}, {}, r"items.\$ref leads elsewhere"),
        ({"description": "x" * 1_000_000}, {}, {}, "description must have at most"),
        (SUMMARY, {"a": {"properties": {"_x": {}}}}, {}, "properties._x is not a known meta-property"),
        (SUMMARY, {"": GREET}, {}, "name"),
        (SUMMARY, {5: GREET}, {}, "name"),
        (SUMMARY, 5, {}, "not 5"),
        (SUMMARY, "text", {}, "not 'text'"),
        (SUMMARY, [GREET], {}, "must be tools, not a value of the type dict"),
        (SUMMARY, [add_up, add_up], {}, "Two tools are called 'add_up'"),
        (SUMMARY, {"a": GREET}, {"explicit": ["b"]}, "not 'b'"),
        (SUMMARY, {"a": GREET}, {"explicit": "a"}, "not 'a'"),
    ],
)
def test_what_cannot_be_composed_is_refused(
    output: Any, tools: Any, options: Any, words: str
) -> None:  # each is invalid
    with pytest.raises(DefinitionError, match=words):
        tw.compose(output, tools, **options)


def test_a_tool_whose_fields_are_ruled_all_at_once_is_refused() -> None:
    config: JSONObject = {"name": "t", "description": "T", "executionType": "external"}
    ruled = Tool.from_config({**config, "inputSchema": {"type": "object", "minProperties": 1}})
    with pytest.raises(InvalidConfiguration, match="minProperties cannot be said of all fields"):
        tw.compose(SUMMARY, [ruled])


# Any composed schema

NAMES = ["output", "calls", "type", "a.b", 'q"', "$ref", "properties"]
SHARED: st.SearchStrategy[Any] = st.sampled_from(
    [{"type": "integer"}, {"type": "string"}, {"enum": ["x", None]}]
)
SCALARS = st.sampled_from(["x", "", 0, 1.5, True, None])
VALUES = st.recursive(
    SCALARS,
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.sampled_from(NAMES), part, max_size=2),
)
PARTS: st.SearchStrategy[Any] = st.recursive(  # JSON Schemas
    st.sampled_from(["string", "integer", "boolean", "null"]).map(lambda kind: {"type": kind})
    | st.just({"$ref": "#/$defs/Item"})
    | st.just({"$ref": "#/definitions/Other"}),
    lambda part: (
        part.map(lambda each: {"type": "array", "items": each})
        | st.dictionaries(st.sampled_from(NAMES), part, min_size=1, max_size=2).map(
            lambda each: {"type": "object", "properties": each, "required": [*each][:1]}
        )
    ),
    max_leaves=4,
)


@st.composite
def schemas(draw: st.DrawFn) -> JSONObject:
    properties: JSONObject = draw(st.dictionaries(st.sampled_from(NAMES), PARTS, max_size=3))
    fixed: dict[str, JSON] = {"_instance": {"type": "string"}, "_outputPath": {"enum": ["†state.a"]}}
    meta = {name: each for name, each in fixed.items() if draw(st.booleans())}
    if draw(st.booleans()):
        meta["_output"] = draw(PARTS)
    required = [name for name in properties if draw(st.booleans())]
    schema: JSONObject = {
        "type": "object",
        "properties": {**meta, **properties},
        "required": [*required],
        "$defs": {"Item": draw(SHARED)},
    }
    schema["definitions"] = {"Other": {"type": "array", "items": {"$ref": "#/$defs/Item"}}}
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.sampled_from([False, {"type": "boolean"}]))
    return schema


def fields_for(schema: JSONObject) -> st.SearchStrategy[JSONObject]:
    """Fields of a call, many of them valid: values of few kinds, under names of the schema."""
    properties: Any = schema["properties"]  # an object
    return st.dictionaries(st.sampled_from([*properties, "other"]), VALUES, max_size=len(properties) + 1)


def is_accepted(name: str, schema: JSONObject, call: JSONObject) -> bool:
    """Return whether the tool's own schema, as it was registered, accepts a call."""
    properties: Any = schema["properties"]  # an object
    needed = ["_output"] if "_output" in properties else []
    original: JSONObject = {**schema, "required": [*schema["required"], *needed, "_tool"]}  # type: ignore[misc]
    original["properties"] = {**properties, "_tool": {"const": name}}
    return accepts(original, call)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(schemas(), max_size=3), SHARED)
def test_a_composed_schema_is_valid_and_accepts_exactly_what_its_tools_accept(
    data: st.DataObject, drawn: list[JSONObject], shared: JSONObject
) -> None:
    tools = {f"tool {number}": schema for number, schema in enumerate(drawn)}
    before = json.dumps(tools)
    composed = tw.compose({"$ref": "#/$defs/Item", "$defs": {"Item": shared}}, tools)
    assert json.dumps(tools) == before
    assert jsonschema_rs.meta.is_valid(composed)
    answers = jsonschema_rs.validator_for(composed, offline=True)
    assert answers.is_valid({"calls": [], "output": None})
    output = data.draw(SCALARS)
    assert answers.is_valid({"calls": [], "output": output}) == (output is None or accepts(shared, output))
    for name, schema in tools.items():
        for _ in range(5):
            fields = data.draw(fields_for(schema))
            assert not answers.is_valid({"calls": [fields], "output": None})
            call = {"_tool": name, **fields}
            assert answers.is_valid({"calls": [call], "output": None}) == is_accepted(name, schema, call)
            assert not answers.is_valid({"calls": [{**call, "_tool": "none"}], "output": None})


# For stricter providers


def test_a_closed_form_closes_every_object_and_changes_nothing_else() -> None:
    composed = tw.compose(SUMMARY, {"greetUser": GREET})
    before = json.dumps(composed)
    closed: Any = closed_form(composed)  # indexed JSON
    assert json.dumps(composed) == before
    assert closed["additionalProperties"] is False
    assert closed["properties"]["calls"]["items"] == {
        "type": "object",
        "properties": {"_tool": {"const": "greetUser"}, "userName": {"type": "string"}},
        "required": ["_tool", "userName"],
        "additionalProperties": False,
    }


def test_a_strict_form_requires_everything_and_takes_null_for_what_may_be_left_out() -> None:
    schema: JSONObject = {
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "object", "properties": {"c": {"enum": [1, 2]}}},
            "d": {"$ref": "#/$defs/D"},
        },
        "required": ["a"],
        "$defs": {"D": {"type": "object", "properties": {"e": {"type": ["string", "null"]}}}},
    }
    composed = tw.compose(SUMMARY, {"t": schema, "u": GREET})
    strict: Any = strict_form(composed)  # indexed JSON
    item = strict["properties"]["calls"]["items"]["anyOf"][0]
    assert item["required"] == ["_tool", "a", "b", "d"]
    assert item["properties"]["a"] == {"type": "string"}
    assert item["properties"]["b"]["type"] == ["object", "null"]
    assert item["properties"]["b"]["properties"]["c"] == {"anyOf": [{"enum": [1, 2]}, {"type": "null"}]}
    assert item["properties"]["d"] == {"anyOf": [{"$ref": "#/$defs/D"}, {"type": "null"}]}
    assert strict["$defs"]["D"]["required"] == ["e"]
    answer: JSONObject = {
        "calls": [
            {"_tool": "t", "a": "x", "b": {"c": None}, "d": {"e": None}},
            {"_tool": "t", "a": "x", "b": None, "d": None},
            {"_tool": "u", "userName": "Ada"},
        ],
        "output": None,
    }
    assert accepts(strict, answer)
    assert not accepts(composed, answer)
    read = without_nulls(answer, composed)
    assert accepts(composed, read)
    assert read == {
        "calls": [
            {"_tool": "t", "a": "x", "b": {}, "d": {"e": None}},
            {"_tool": "t", "a": "x"},
            {"_tool": "u", "userName": "Ada"},
        ],
        "output": None,
    }


def test_a_strict_form_adds_no_null_to_what_may_be_null_already() -> None:
    schema: JSONObject = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
    assert strict_form(schema)["properties"] == schema["properties"]


def test_a_list_of_nothing_has_items_of_a_form_for_providers_that_want_one() -> None:
    composed = tw.compose(SUMMARY, {})
    for render in (closed_form, strict_form):
        rendered: Any = render(composed)  # indexed JSON
        assert rendered["properties"]["calls"] == {"type": "array", "maxItems": 0, "items": {"type": "null"}}


@pytest.mark.parametrize(
    ("part", "path"),
    [
        (dict[str, JSON](), "properties.x says no type"),
        (True, "properties.x takes anything"),
        (False, "properties.x takes nothing"),
        ({"type": "object"}, "properties.x takes fields of any name"),
        ({"type": "array"}, "properties.x takes items of any form"),
        (
            {"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "string"}},
            "properties.x takes fields of any name",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": True},
            "properties.x takes fields of any name",
        ),
        ({"type": "object", "properties": {}}, "properties.x takes fields of any name"),
        (
            {"type": "object", "properties": {}, "additionalProperties": True},
            "properties.x takes fields of any name",
        ),
        ({"oneOf": [{"type": "string"}]}, "properties.x.oneOf has no place there"),
        ({"type": "array", "items": {"not": {"type": "null"}}}, "properties.x.items.not has no place there"),
        (
            {"type": "object", "properties": {"a": True}, "anyOf": [{"type": "object"}]},
            "properties.x.anyOf has no place beside properties",
        ),
    ],
)
def test_what_has_no_strict_form_is_refused_with_its_path(part: JSON, path: str) -> None:
    schema: JSONObject = {"type": "object", "properties": {"x": part}}
    for render in (closed_form, strict_form):
        with pytest.raises(DefinitionError, match=path):
            render(schema)


@settings(max_examples=60, deadline=None)
@given(st.data(), schemas())
def test_what_a_stricter_form_accepts_the_composed_schema_accepts(
    data: st.DataObject, schema: JSONObject
) -> None:
    schema.pop("additionalProperties", None)
    composed = tw.compose(SUMMARY, {"t": schema})
    closed, strict = closed_form(composed), strict_form(composed)
    assert jsonschema_rs.meta.is_valid(closed)
    assert jsonschema_rs.meta.is_valid(strict)
    looked_into: Any = strict
    required: list[str] = looked_into["properties"]["calls"]["items"]["required"]
    for _ in range(5):
        call: JSONObject = {"_tool": "t", **data.draw(fields_for(schema))}
        answer: JSONObject = {"calls": [call], "output": None}
        assert accepts(composed, answer) or not accepts(closed, answer)
        full: JSONObject = {**dict.fromkeys(required), **call}
        filled: JSONObject = {"calls": [full], "output": None}
        if accepts(strict, filled):
            assert accepts(composed, without_nulls(filled, composed))


def test_an_answer_within_alternatives_that_refer_to_themselves_is_read_at_once() -> None:
    branch: JSONObject = {"type": "object", "properties": {"x": {"$ref": "#/$defs/N"}}, "required": ["x"]}
    schema: JSONObject = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"anyOf": [branch, {**branch, "title": "B"}, {"type": "string"}]}},
    }
    answer: JSON = 5
    for _ in range(50):
        answer = {"x": answer}
    assert without_nulls(answer, schema) == answer
