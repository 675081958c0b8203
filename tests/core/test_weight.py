"""Schemas of a kilobyte whose alternatives refer to alternatives: refused, or counted before they validate."""

import json
from typing import Any, get_args

import pytest

import toolwright as tw
from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.arguments.schema import (
    MAX_AT_ONCE,
    MAX_VISITS,
    InvalidSchema,
    compile_promise,
    compile_schema,
)
from toolwright.core.arguments.validator import ArgumentValidator, ResultValidator
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.listing import read_listed
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.output import Output
from toolwright.core.schemas.provider_forms import provider_form
from toolwright.core.schemas.provider_rules import Provider
from toolwright.core.tools.mcp import McpCall, McpServer

REFUSED = f"more than {MAX_AT_ONCE} of its subschemas"
TOO_HEAVY = f"take more than {MAX_VISITS} steps to validate"


def doubled(levels: int, keyword: str = "anyOf", end: JSONObject | None = None, **root: Any) -> JSONObject:
    """Return an object schema of `a`, with definitions each of which refers to the next one twice."""
    defs: dict[str, Any] = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    defs[f"d{levels}"] = end or {"type": "integer"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs, **root}


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"op": "or", "args": [inner]}
    return inner


def expression() -> JSONObject:
    """Return the schema of expressions, as pydantic writes a recursive union."""
    args: JSONObject = {"type": "array", "items": {"$ref": "#/$defs/E"}}
    forms: list[Any] = [
        {"type": "object", "properties": {"args": args, "op": {"const": op}}, "required": ["op", "args"]}
        for op in ("and", "or")
    ]
    defs: JSONObject = {"E": {"anyOf": [*forms, {"type": "integer"}]}}
    return {"type": "object", "properties": {"where": {"$ref": "#/$defs/E"}}, "$defs": defs}


DOUBLED: list[Any] = [
    doubled(40),
    doubled(40, "allOf"),
    doubled(40, "oneOf"),
    doubled(14),
    doubled(40, end={"type": "array", "items": {"$ref": "#/$defs/d0"}}),
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {
            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}], "unevaluatedProperties": False}
            if n < 30
            else {}
            for n in range(31)
        },
    },
    {
        "type": "object",
        "properties": {"a": {"$ref": "#d0"}},
        "$defs": {
            f"d{n}": {"$anchor": f"d{n}", "anyOf": [{"$ref": f"#d{min(n + 1, 30)}"}] * 2 if n < 30 else [{}]}
            for n in range(31)
        },
    },
    {
        "type": "object",
        "properties": {"a": {"$ref": "in.json#/properties/a"}},
        "$defs": {"x": doubled(40) | {"$id": "in.json"}},
    },
    doubled(30, default={"$id": "y", "$defs": {"d0": {}}}),
]


@pytest.mark.parametrize("schema", DOUBLED)
def test_a_schema_that_validates_a_value_too_often_is_refused_wherever_it_comes_from(
    schema: JSONObject,
) -> None:
    with pytest.raises(InvalidSchema, match=REFUSED):
        compile_promise(schema)
    with pytest.raises(DefinitionError, match=REFUSED):
        tw.Tool(name="t", description="T.", kind="internal", parameters=schema)
    with pytest.raises(InvalidConfiguration, match=REFUSED):
        tw.Tool.from_config({"name": "t", "description": "T.", "isInternal": True, "inputSchema": schema})
    for declare in (lambda: tw.Tool.from_schema("t", schema), lambda: Output(schema)):
        with pytest.raises(
            InvalidConfiguration
        ):  # some of these forms are not local, which is refused before
            declare()


def test_a_listed_tool_with_such_a_schema_is_left_out_and_with_such_results_has_no_output_schema() -> None:
    server = McpServer(name="x", url="https://x")
    tools, faults = read_listed(
        server,
        [
            {"name": "arguments", "inputSchema": doubled(17)},
            {"name": "results", "inputSchema": {"type": "object"}, "outputSchema": doubled(17)},
        ],
    )
    [tool] = tools
    assert isinstance(tool.relation, McpCall)
    assert (tool.name, tool.relation.output) == ("results", None)
    assert [(each.tool, REFUSED in each.message) for each in faults] == [
        ("arguments", True),
        ("results", True),
    ]


def test_a_schema_that_shares_its_parts_among_properties_is_taken() -> None:
    defs: dict[str, Any] = {
        f"d{n}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}}
        for n in range(40)
    }
    schema: JSONObject = {
        "type": "object",
        "$ref": "#/$defs/d0",
        "$defs": {**defs, "d40": {"type": "integer"}},
    }
    validator = ArgumentValidator(schema, "t")
    assert validator.read('{"a": {"b": {"a": {}}}}') == {"a": {"b": {"a": {}}}}
    with pytest.raises(InvalidArguments, match=r"a\.b: must be an object, not a number"):
        validator.read('{"a": {"b": 1}}')
    tw.Tool(name="t", description="T.", kind="internal", parameters=schema)
    tool = ToolDefinition(name="t", description="T.", parameters=schema)
    for provider in get_args(Provider):
        provider_form(tool, provider)


def test_errors_within_a_deep_union_are_counted_before_they_are_collected() -> None:
    validator = ArgumentValidator(expression(), "t")
    assert validator.read(json.dumps({"where": nested(8, 1)})) == {"where": nested(8, 1)}
    for _ in range(2):  # the second call has a compiled check of numbers
        with pytest.raises(
            InvalidArguments, match="where: does not fit the schema, which has too many alternatives"
        ):
            validator.read(json.dumps({"where": nested(14, "x")}))
        with pytest.raises(InvalidArguments, match="where: must be an object or an integer, not a string"):
            validator.read(json.dumps({"where": "x"}))


def test_values_whose_validation_would_take_too_long_are_refused_in_words() -> None:
    schema = doubled(
        10, end={"type": "array", "items": {"$ref": "#/$defs/d0"}}
    )  # 2 ** 10 times each level's visits
    deep: Any = {"a": [[["x"]]]}
    with pytest.raises(InvalidArguments, match=TOO_HEAVY):
        ArgumentValidator(schema, "t").read(json.dumps(deep))
    [error] = ResultValidator(schema, "t").errors(deep)
    assert TOO_HEAVY in error.text
    assert ArgumentValidator(schema, "t").read('{"a": []}') == {"a": []}


def test_a_wide_value_is_refused_where_each_of_its_items_has_thousands_of_alternatives() -> None:
    schema = doubled(0, end={"type": "array", "items": {"not": {"$ref": "#/$defs/e0"}}})
    inner = doubled(11)["$defs"]
    assert isinstance(inner, dict)
    schema["$defs"] = {**schema["$defs"], **{f"e{name[1:]}": _renamed(each) for name, each in inner.items()}}  # type: ignore[dict-item]
    with pytest.raises(InvalidArguments, match=TOO_HEAVY):
        ArgumentValidator(schema, "t").read(json.dumps({"a": ["x"] * 5_000}))


def _renamed(schema: Any) -> JSONObject:
    renamed: Any = json.loads(json.dumps(schema).replace("/d", "/e"))
    return dict(renamed)


def test_a_reference_that_cannot_be_followed_is_refused() -> None:
    hidden: JSONObject = {"x": doubled(40) | {"$id": "urn:in"}}
    compiled = compile_schema(
        {"type": "object", "$defs": {"n": True}, "properties": {"a": {"$ref": "#/$defs/n"}}}, "t"
    )
    assert compiled.is_valid({"a": 1})
    compile_promise({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    with pytest.raises(InvalidSchema, match=REFUSED):
        compile_promise({"$defs": hidden, "$ref": "urn:in#/properties/a"})
