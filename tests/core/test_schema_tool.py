"""Tools from S1's JSON Schemas: the resulting tools, the errors of invalid schemas, and their calls."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.printed import GREET, SENTIMENT

from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_NAME, MAX_SCHEMA_VALUES
from toolwright.core.results import ToolResult
from toolwright.core.schemas.meta import Call, read_call
from toolwright.core.schemas.state_paths import OutputPath
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio


def with_meta(**meta: Any) -> JSONObject:  # any JSON
    return {"type": "object", "properties": {"a": {"type": "string"}, **meta}}


def faults(schema: object, name: str = "greetUser") -> dict[str, str]:
    with pytest.raises(InvalidConfiguration) as caught:
        Tool.from_schema(name, schema)
    for detail in caught.value.details:
        assert f"{detail['path']} {detail['message']}".strip() in caught.value.message
    return {each["path"]: each["message"] for each in caught.value.details}


def call_of(tool: Tool, arguments: JSONObject) -> Call:
    assert tool.validator is not None
    assert tool.meta is not None
    return read_call(tool.name, tool.meta, tool.validator.read(arguments), tool.latent)


def test_the_example_of_the_document_becomes_a_tool() -> None:
    before = json.dumps(SENTIMENT)
    tool = Tool.from_schema("sentimentAnalysis", SENTIMENT)
    assert json.dumps(SENTIMENT) == before
    assert (tool.name, tool.description, tool.kind) == (
        "sentimentAnalysis",
        "Analyzes text sentiment",
        "latent",
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "Text to analyze"}},
    }
    assert tool.meta is not None
    assert tool.meta.output == SENTIMENT["properties"]["_output"]  # type: ignore[index,call-overload]  # an object
    assert (tool.visible, tool.timeout, tool.repeatable) == (False, None, False)


def test_every_meta_property_is_read_and_none_is_a_parameter() -> None:
    tool = Tool.from_schema(
        "note",
        {
            "title": "A note",
            "properties": {
                "_tool": {"type": "string"},
                "_activity": {"const": "writeNote"},
                "_outputPath": {"const": {"path": "†state.notes.all", "method": "push"}},
                "_instance": {"const": "first"},
                "_output": {"type": "string"},
                "text": {"type": "string"},
            },
            "required": ["_tool", "text", "_output"],
            "additionalProperties": False,
        },
    )
    assert tool.description == ""
    assert tool.meta is not None
    assert (tool.meta.title, tool.meta.activity, tool.meta.instance) == ("A note", "writeNote", "first")
    assert tool.meta.output_path == OutputPath(path=("notes", "all"), method="push")
    assert tool.parameters == {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }


def test_a_delegate_is_fixed_by_the_tool_or_left_to_the_call() -> None:
    fixed = Tool.from_schema("t", with_meta(_delegate={"const": "researcher"}))
    assert fixed.meta is not None
    assert (fixed.kind, fixed.meta.delegate, fixed.offered) == ("delegate", "researcher", fixed.parameters)
    choice = Tool.from_schema("t", with_meta(_delegate={"type": "string"}))
    assert choice.kind == "latent"
    assert choice.offered["properties"] == {"a": {"type": "string"}, "_delegate": {"type": "string"}}
    assert call_of(choice, {"a": "x", "_delegate": "writer"}).delegate == "writer"
    assert call_of(fixed, {"a": "x", "_delegate": "writer"}).delegate == "researcher"


def test_a_model_is_offered_what_the_tool_leaves_open_and_a_latent_output() -> None:
    schema = with_meta(
        _instance={"type": "string"},
        _outputPath={"enum": ["†state.x", "†state.y"]},
        _activity={"const": ""},
        _output={"$ref": "#/$defs/Mood"},
    ) | {"$defs": {"Mood": {"enum": ["good", "bad"]}, "Unused": {"type": "null"}}}
    tool = Tool.from_schema("t", schema)
    assert tool.offered == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "_outputPath": {"enum": ["†state.x", "†state.y"]},
            "_instance": {"type": "string"},
            "_output": {"$ref": "#/$defs/Mood"},
        },
        "required": ["_output"],
        "$defs": {"Mood": {"enum": ["good", "bad"]}},
    }
    for format in ("openai", "anthropic", "mcp"):
        assert "_instance" in json.dumps(Toolset([tool]).definitions(format))
    assert tool.definition.parameters == tool.offered
    assert "$defs" not in tool.parameters


def test_a_call_is_read_without_its_meta_properties() -> None:
    schema = with_meta(_instance={}, _outputPath={}, _output={"type": "integer"})
    call = call_of(
        Tool.from_schema("t", schema),
        {
            "_tool": "t",
            "_reasoningForCall": "It is needed.",
            "a": "x",
            "b": 1,
            "_instance": "two",
            "_outputPath": {"path": "†state.x", "method": "merge"},
            "_output": 7,
            "_delegate": "nobody asked",
            "_more": 1,
        },
    )
    assert call == Call(
        tool="t",
        args={"a": "x", "b": 1},
        meta={"_instance": "two", "_outputPath": {"path": "†state.x", "method": "merge"}, "_output": 7},
        reasoning="It is needed.",
    )
    assert (call.instance, call.delegate) == ("two", None)
    assert call.output_path == OutputPath(path=("x",), method="merge")


def test_what_the_tool_fixes_is_in_force_whatever_the_call_says() -> None:
    schema = with_meta(
        _instance={"const": "one"},
        _outputPath={"const": {"path": "†state.x", "method": "push"}},
        _delegate={"const": "writer"},
        _output={},
    )
    call = call_of(
        Tool.from_schema("t", schema),
        {"_instance": "two", "_outputPath": "†state.y", "_delegate": "x", "_output": 1},
    )
    assert call.meta == {
        "_instance": "one",
        "_outputPath": {"path": "†state.x", "method": "push"},
        "_delegate": "writer",
    }
    assert call.output_path == OutputPath(path=("x",), method="push")
    assert (call.instance, call.delegate) == ("one", "writer")
    plain_path = Tool.from_schema("t", with_meta(_outputPath={"const": "†state.x.y"}))
    assert call_of(plain_path, {}).meta == {"_outputPath": "†state.x.y"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"_tool": "other", "_output": {}}, '_tool: must be "sentimentAnalysis"'),
        (
            {"text": "x", "_output": {"confidence": "high"}},
            "_output.confidence: must be a number, not a string",
        ),
        ({"text": "x"}, "_output: is missing"),
        ({"text": 1, "_output": None}, "text: must be a string"),
    ],
)
async def test_the_output_of_a_latent_tool_is_validated_by_its_schema(
    arguments: JSONObject, words: str
) -> None:
    result = await Toolset([Tool.from_schema("sentimentAnalysis", SENTIMENT)]).call(
        "sentimentAnalysis", arguments
    )
    assert result.error_code == "invalid_arguments"
    assert words in (result.error or "")


@pytest.mark.parametrize(
    ("meta", "arguments", "path"),
    [
        ({"_outputPath": {}}, {"_outputPath": "state.x"}, "_outputPath"),
        (
            {"_outputPath": {}},
            {"_outputPath": {"path": "†state.x", "method": "delete"}},
            "_outputPath.method",
        ),
        ({"_outputPath": {"enum": ["†state.x"]}}, {"_outputPath": "†state.y"}, "_outputPath"),
        ({"_instance": {}}, {"_instance": ""}, "_instance"),
        ({"_instance": {"maxLength": 3}}, {"_instance": "four"}, "_instance"),
    ],
)
async def test_what_a_call_chooses_is_validated(meta: JSONObject, arguments: JSONObject, path: str) -> None:
    tools = Toolset([Tool.from_schema("t", with_meta(**meta))])
    result = await tools.call("t", {"a": "x", **arguments})
    assert result.error_code == "invalid_arguments"
    assert path in (result.error or "")
    assert (await tools.call("t", {"a": "x"})).status == "success"


async def test_a_latent_tool_gives_its_output_else_its_arguments() -> None:
    tools = Toolset([Tool.from_schema("sentimentAnalysis", SENTIMENT), Tool.from_schema("greetUser", GREET)])
    output: JSONObject = {"sentiment": "positive", "confidence": 0.99}
    call: JSONObject = {"_tool": "sentimentAnalysis", "text": "This is the best!", "_output": output}
    assert await tools.call("sentimentAnalysis", call) == ToolResult.ok(output)
    greeted = await tools.call("greetUser", {"_tool": "greetUser", "userName": "Ada", "_output": "Hello"})
    assert greeted == ToolResult.ok({"success": True, "args": {"userName": "Ada"}})


async def test_what_is_not_offered_is_dropped_also_where_unknown_fields_are_refused() -> None:
    tools = Toolset([Tool.from_schema("t", with_meta() | {"additionalProperties": False})])
    dropped: JSONObject = {
        "_output": 1,
        "_outputPath": 2,
        "_instance": 3,
        "_delegate": 4,
        "_reasoningForCall": 5,
    }
    assert await tools.call("t", {"a": "x", **dropped}) == ToolResult.ok(
        {"success": True, "args": {"a": "x"}}
    )
    assert "b: is not a known argument" in ((await tools.call("t", {"b": 1})).error or "")


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        (5, "", "must be an object, not a number"),
        ([GREET], "", "must be an object, not an array"),
        (None, "", "must be an object, not null"),
        ("{}", "", "must be an object, not a string"),
        (True, "", "must be an object, not a boolean"),
        ({"type": "string"}, "type", "must be 'object'"),
        ({"type": ["object", "null"]}, "type", "must be 'object'"),
        ({"properties": {"a": {"default": float("nan")}}}, "", "JSON cannot represent"),
        ({"properties": {"a": {"type": "bogus"}}}, "properties.a.type", "is not valid JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern", "is not valid JSON Schema"),
        ({"properties": 5}, "properties", "is not valid JSON Schema"),
        ({"required": "a"}, "required", "is not valid JSON Schema"),
        ({"description": 5}, "description", "is not valid JSON Schema"),
        ({"title": "two\nlines"}, "title", "must be one line"),
        ({"_tool": "greetUser"}, "_tool", "meta-properties belong in the properties"),
        (with_meta(_tool={"const": "other"}), "properties._tool.const", "must be 'greetUser'"),
        (with_meta(_tool={"enum": ["x", "y"]}), "properties._tool", "must be 'greetUser'"),
        (with_meta(_tool={"type": "integer"}), "properties._tool", "must be 'greetUser'"),
        (with_meta(_other={}), "properties._other", "there are _tool, _output, _activity"),
        (with_meta(_reasoningForCall={}), "properties._reasoningForCall", "is added where it is asked for"),
        (with_meta(_output=True), "properties._output", "must be an object"),
        (with_meta(_activity={"type": "string"}), "properties._activity", "needs a const"),
        (with_meta(_activity={"const": 5}), "properties._activity.const", "must be one line"),
        (with_meta(_delegate={"const": ""}), "properties._delegate.const", "must be one line of 1 to"),
        (with_meta(_instance={"const": None}), "properties._instance.const", "must be one line of 1 to"),
        (
            with_meta(_activity={"const": "a"}, _delegate={}),
            "properties._delegate",
            "cannot be combined with an _activity",
        ),
        (with_meta(_outputPath={"const": "state.a"}), "properties._outputPath.const", "is no output path"),
        (with_meta(_outputPath={"const": "†state"}), "properties._outputPath.const", "is no output path"),
        (with_meta(_outputPath={"const": "†state..a"}), "properties._outputPath.const", "is no output path"),
        (
            with_meta(_outputPath={"const": {"method": "set"}}),
            "properties._outputPath.const",
            "is no output path",
        ),
        (
            with_meta(_outputPath={"const": {"path": "†state.a", "method": "x"}}),
            "properties._outputPath.const",
            "one of set, merge, push, concat",
        ),
        (
            with_meta(_outputPath={"enum": ["†state.a", 5]}),
            "properties._outputPath.enum.1",
            "is no output path",
        ),
        ({"$ref": "#"}, "$ref", "leads back to itself"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "$ref", "leads back to itself"),
        (with_meta(x={"$ref": "#/$defs/A"}), "properties.x.$ref", "where no schema is"),
        (with_meta(x={"$ref": "other.json"}), "properties.x.$ref", "nothing is fetched"),
        (with_meta(x={"$ref": "https://example.com/s#/a"}), "properties.x.$ref", "nothing is fetched"),
        (with_meta(x={"$ref": "file:///etc/hosts"}), "properties.x.$ref", "nothing is fetched"),
        (with_meta(x={"items": [{"$ref": 5}]}), "properties.x.items", "is not valid JSON Schema"),
        (with_meta(x={"items": {"$ref": 5}}), "properties.x.items.$ref", "leads elsewhere"),
        (with_meta(_output={"$dynamicRef": "#x"}), "properties._output.$dynamicRef", "is not taken"),
        (with_meta(x={"$id": "https://example.com/"}), "properties.x.$id", "is not taken"),
        (
            {"$ref": "#/$defs/A", "required": ["a"], "$defs": {"A": GREET}},
            "required",
            "cannot be combined with $ref",
        ),
        ({"minProperties": 1}, "minProperties", "cannot be said of all fields"),
        (
            {"allOf": [{"unevaluatedProperties": False}]},
            "allOf.0.unevaluatedProperties",
            "cannot be said of all fields",
        ),
        ({"const": {"a": 1}}, "const", "cannot be said of all fields"),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, "propertyNames", "cannot be said of all fields"),
        (
            {"patternProperties": {"^_": {"type": "string"}}},
            "patternProperties",
            "cannot be said of all fields",
        ),
        (
            {"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"additionalProperties": False}}},
            "$defs.A.additionalProperties",
            "cannot be said of all fields",
        ),
    ],
)
def test_an_invalid_schema_is_refused_with_the_path(schema: object, path: str, words: str) -> None:
    assert words in faults(schema)[path]


@pytest.mark.parametrize(
    "schema",
    [
        {"unevaluatedProperties": False},
        {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
        {"propertyNames": {"pattern": "^[_a-z]"}},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"additionalProperties": True}]},
        {"anyOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"required": ["a"]}}},
    ],
)
async def test_rules_that_meta_properties_keep_are_taken(schema: JSONObject) -> None:
    tool = Tool.from_schema("t", with_meta(_instance={}) | schema)
    assert tool.validator is not None
    arguments: JSONObject = {"a": "x", "_instance": "i", "_tool": "t", "_output": 1}
    assert tool.validator.read(arguments) == arguments


def test_every_error_is_reported_at_once() -> None:
    schema = with_meta(_x={}, _tool={"const": 1}, _outputPath={"const": 2}) | {
        "maxProperties": 3,
        "type": "array",
    }
    assert set(faults(schema)) == {
        "type", "maxProperties", "properties._x", "properties._tool.const", "properties._outputPath.const",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (with_meta(x={"description": "x" * 1_000_000}), "properties.x.description"),
        (with_meta(x={"enum": ["y" * 100 for _ in range(10_000)]}), "properties.x.enum"),
        (with_meta(x={"enum": [*range(MAX_SCHEMA_VALUES)]}), "properties.x.enum"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(MAX_SCHEMA_VALUES // 2)}}, "properties"),
        ({"properties": {"a": {}}, "x" * 1_000_000: 1}, ""),
    ],
)
def test_a_megabyte_of_schema_is_refused_before_anything_is_made_of_it(schema: JSONObject, path: str) -> None:
    assert "must have at most" in faults(schema)[path]


@pytest.mark.parametrize("name", ["", " ", "two\nlines", 5, "x" * (MAX_NAME + 1)])
def test_an_invalid_name_is_refused(name: Any) -> None:  # no name, on purpose
    with pytest.raises(DefinitionError, match="name"):
        Tool.from_schema(name, GREET)


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema: dict[str, Any] = {"properties": {}}  # any JSON, including itself
    schema["properties"]["a"] = schema
    assert "contains itself" in faults(schema)[""]


async def test_references_of_every_form_lead_to_definitions_of_the_tool() -> None:
    schema: JSONObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/tree",
        "properties": {
            "_tool": {"const": "tree"},
            "name": {"$ref": "#/definitions/a~1b%25"},
            "again": {"$ref": "#/properties/name"},
            "below": {"type": "array", "items": {"$ref": "#"}},
            "$ref": {"const": {"$ref": "https://example.com/"}, "default": {"$ref": "x"}},
        },
        "required": ["_tool"],
        "additionalProperties": False,
        "definitions": {"a/b%": {"type": "string"}},
    }
    tool = Tool.from_schema("tree", schema)
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    assert properties["name"] == {"$ref": "#/$defs/a_1b_25"}
    assert properties["below"] == {"type": "array", "items": {"$ref": "#/$defs/tree"}}
    assert jsonschema_rs.validator_for(tool.parameters, offline=True).is_valid({"below": [{"below": []}]})
    tools = Toolset([tool])
    assert (await tools.call("tree", '{"below": [{"name": "x", "below": []}]}')).status == "success"
    wrong = await tools.call("tree", {"again": 1, "below": [{"below": [{"name": 2}]}], "$ref": 3})
    assert "again: must be a string" in (wrong.error or "")
    assert "below.0.below.0.name: must be a string" in (wrong.error or "")


def test_a_reference_at_the_top_is_written_out() -> None:
    node: JSONObject = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    }
    tool = Tool.from_schema("t", {"$ref": "#/$defs/Node", "description": "A list", "$defs": {"Node": node}})
    assert tool.description == "A list"
    assert tool.parameters == {**node, "$defs": {"Node": node}}


def test_a_chain_of_definitions_may_be_long() -> None:
    chain: JSONObject = {f"d{n}": {"properties": {"x": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(2000)}
    tool = Tool.from_schema(
        "t", {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, "d2000": {}}}
    )
    definitions = tool.parameters["$defs"]
    assert isinstance(definitions, dict)
    assert len(definitions) == 2001


KEYWORDS = st.sampled_from(
    [
        "type", "properties", "required", "$ref", "$defs", "definitions", "items", "anyOf", "allOf", "not", "enum",
        "const", "patternProperties", "propertyNames", "additionalProperties", "dependentSchemas", "title",
        "description", "_tool", "_output", "_outputPath", "_activity", "_delegate", "_instance", "_x", "a", "A",
    ]
)  # fmt: skip
ANY_SCHEMAS = st.dictionaries(
    KEYWORDS,
    st.recursive(
        st.sampled_from(
            ["#", "#/$defs/A", "#/properties/a", "object", "string", "†state.a", "t", "", 1, True, None]
        ),
        lambda part: st.lists(part, max_size=2) | st.dictionaries(KEYWORDS, part, max_size=3),
        max_leaves=12,
    ),
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(ANY_SCHEMAS)
def test_any_object_becomes_a_tool_or_is_refused_in_words(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    try:
        tool = Tool.from_schema("t", schema)
    except InvalidConfiguration as error:
        assert error.details
    else:
        assert jsonschema_rs.meta.is_valid(tool.parameters)
        assert jsonschema_rs.meta.is_valid(tool.offered)
        assert tool.validator is not None
        tool.validator.compile()
    assert json.dumps(schema) == before


def test_a_name_with_capitals_is_not_warned_of() -> None:
    assert Tool.from_schema("Get User's.name", GREET).name == "Get User's.name"
