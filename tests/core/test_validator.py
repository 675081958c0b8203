"""The validator of arguments."""

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from tests.behaviour.marks import requirement

import toolwright as tw
from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.arguments.schema import compile_promise
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.listing import read_listed, read_tool
from toolwright.core.tools.mcp import McpServer
from toolwright.core.tools.tool import tool
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio


class Filter(BaseModel):
    tags: list[int] = []
    since: str | None = None

    @field_validator("since")
    @classmethod
    def known(cls, value: str) -> str:
        if value == "never":
            raise ValueError("never is no time")
        return value


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    loud: bool


@tool(timeout=None)
async def search(
    query: str,
    limit: int = 10,
    ratio: float = 0.5,
    filter: Filter | None = None,
    pet: Annotated[Cat | Dog | None, Field(discriminator="kind")] = None,
    on: bool = False,
) -> list[object]:
    """Search."""
    return [query, limit, ratio, filter, pet, on]


TOOLS = Toolset([search])


async def fault(arguments: object) -> str:
    result = await TOOLS.call("search", arguments)  # type: ignore[arg-type]  # invalid on purpose
    assert result.status == "error"
    assert result.error_code == "invalid_arguments"
    return result.error or ""


@requirement("S2-3.4-1", "S2-4.3-4")
async def test_every_invalid_path_is_named_in_one_text() -> None:
    text = await fault(
        '{"limit": "10", "filter": {"tags": [1, "2"], "colour": 1}, '
        '"pet": {"kind": "cat", "lives": "9"}, "x": 1}'
    )
    assert text == (
        "Invalid arguments: limit: must be an integer, not a string; filter.tags.1: must be an "
        "integer, not a string; filter.colour: is not a known argument; pet.lives: must be an "
        "integer, not a string; "
        "x: is not a known argument; query: is missing."
    )


async def test_alternatives_are_told_apart() -> None:
    assert "pet: must be an object or null, not a number" in await fault('{"query": "", "pet": 1}')
    assert 'pet.kind: must be "cat" or "dog"' in await fault('{"query": "", "pet": {"kind": "cow"}}')


@requirement("S2-3.4-1")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"query":', "not valid JSON"),
        ("[]", "must be a JSON object, not an array"),
        ("null", "must be a JSON object, not null"),
        ('{"query": NaN}', "not valid JSON"),
        ('{"query": "", "ratio": 1e400}', "ratio: is out of the range"),
        ('{"query": "", "ratio": 1' + "0" * 400 + "}", "ratio: is out of the range"),
        ('{"query": "", "filter": ' + "[" * 70 + "]" * 70 + "}", "deeper than 64"),
        ("[" * 5000, "deeper than 64"),
        ('{"query": "", "limit": true}', "limit: must be an integer, not a boolean"),
        ('{"query": "", "limit": 1.5}', "limit: must be an integer, not a fractional number"),
        ('{"query": 1}', "query: must be a string, not a number"),
        ('{"query": "", "on": 1}', "on: must be a boolean, not a number"),
        ('{"query": "", "filter": {"since": "never"}}', "filter.since: never is no time"),
        ({"query": b"x"}, "query is of the type bytes"),
        ({"query": "\ud800"}, "not valid JSON"),
        ('"\ud800"', "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (7, "must be JSON text or an object"),
        (None, "must be JSON text or an object"),
    ],
)
async def test_invalid_arguments_are_an_error_result(arguments: object, text: str) -> None:
    assert text in await fault(arguments)


async def test_whole_numbers_are_integers_and_large_ones_stay_exact() -> None:
    result = await TOOLS.call("search", '{"query": "", "limit": 3.0, "filter": {"tags": [2.0]}, "ratio": 1}')
    assert json.dumps(result.result) == '["", 3, 1.0, {"tags": [2], "since": null}, null, false]'
    large = 12345678901234567890123456789012345
    result = await TOOLS.call("search", {"query": "", "limit": large})
    assert isinstance(result.result, list)
    assert result.result[1] == large


async def test_the_callers_object_stays_its_own() -> None:
    given: JSONObject = {"query": "", "limit": 3.0}
    await TOOLS.call("search", given)
    assert json.dumps(given) == '{"query": "", "limit": 3.0}'


def test_sixty_four_levels_are_taken_and_one_more_is_not() -> None:
    validator = ArgumentValidator({"type": "object"}, "any")
    validator.read('{"a":' * 64 + "1" + "}" * 64)
    with pytest.raises(InvalidArguments, match="64"):
        validator.read('{"a":' * 65 + "1" + "}" * 65)


@pytest.mark.parametrize(
    "schema", [{"type": "bogus"}, {"$ref": "#/nowhere"}, {"$ref": "https://example.com/x"}, {"pattern": "("}]
)
def test_an_invalid_schema_is_refused(schema: JSONObject) -> None:
    with pytest.raises(DefinitionError, match="not a valid JSON Schema"):
        ArgumentValidator(schema, "bad").compile()


@pytest.mark.parametrize("pattern", [r"^[\w-.]+$", r"^[^]$", r"a\Z", r"^[a-z0-9\s-_]*$"])
def test_a_pattern_that_the_validator_cannot_read_is_left_out_with_one_warning(
    pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": pattern},
            "pattern": {"const": {"pattern": pattern}},
        },
        "patternProperties": {pattern: {"type": "integer"}, "^x": {"type": "integer"}},
        "additionalProperties": False,
    }
    for name in ("one", "two"):
        made = tw.Tool(name=name, description="d", parameters=schema, kind="external")
        assert made.parameters == {
            "type": "object",
            "properties": {"a": {"type": "string"}, "pattern": {"const": {"pattern": pattern}}},
            "patternProperties": {"^x": {"type": "integer"}},
        }
        assert made.validator is not None
        assert made.validator.read({"a": "?", "any": "thing"}) == {"a": "?", "any": "thing"}
        with pytest.raises(InvalidArguments):
            made.validator.read({"a": 1})
        with pytest.raises(InvalidArguments):
            made.validator.read({"xa": "text"})
    config = {"name": "t", "description": "d", "executionType": "external", "inputSchema": schema}
    assert "patternProperties" in tw.Tool.from_config(config).parameters
    listed = McpServer(name="s", url="https://example.com/mcp")
    assert read_tool(listed, "t", {"inputSchema": schema}).parameters["patternProperties"] == {
        "^x": {"type": "integer"}
    }
    assert compile_promise(schema).is_valid({"a": "?"})
    lines = [line for line in caplog.messages if repr(pattern) in line]
    assert lines == [f"Tool 'one': values are not validated by 1 pattern that cannot be read: {pattern!r}."]


def unread(prefix: str) -> list[JSONObject]:
    """Return the schemas of two tools, with five patterns that the validator cannot read."""

    def schema(*numbers: int) -> JSONObject:
        names: JSONObject = {f"p{n}": {"type": "string", "pattern": rf"^{prefix}{n}\Z"} for n in numbers}
        return {"type": "object", "properties": names}

    return [schema(1, 2), schema(2, 3, 4, 5)]


def from_a_document(schemas: list[JSONObject]) -> str:
    paths: dict[str, Any] = {
        f"/p{number}": {
            "post": {
                "requestBody": {"content": {"application/json": {"schema": schema}}},
                "responses": {},
            }
        }
        for number, schema in enumerate(schemas)
    }
    servers = [{"url": "https://example.com"}]
    document = {"openapi": "3.1.0", "info": {"title": "Odd", "version": "1"}, "servers": servers}
    assert len(tw.openapi({**document, "paths": paths})) == 2
    return "The OpenAPI document 'Odd'"


def from_a_server(schemas: list[JSONObject]) -> str:
    server = McpServer(name="odd", url="https://example.com/mcp")
    tools, errors = read_listed(
        server,
        [
            {"name": "first", "inputSchema": schemas[0]},
            {"name": "second", "inputSchema": {"type": "object"}, "outputSchema": schemas[1]},
        ],
    )
    assert (len(tools), errors) == (2, ())
    return "The MCP server 'odd'"


def from_a_tool(schemas: list[JSONObject]) -> str:
    config = {"name": "odd", "description": "d", "executionType": "external"}
    both: JSONObject = {"type": "object", "properties": {"a": schemas[0], "b": schemas[1]}}
    tw.Tool.from_config({**config, "inputSchema": both})
    return "Tool 'odd'"


@pytest.mark.parametrize("read", [from_a_document, from_a_server, from_a_tool])
def test_patterns_that_the_validator_cannot_read_are_one_warning_a_source(
    read: Callable[[list[JSONObject]], str], caplog: pytest.LogCaptureFixture
) -> None:
    prefix = read.__name__
    source = read(unread(prefix))
    named = ", ".join(repr(rf"^{prefix}{n}\Z") for n in (1, 2, 3))
    assert caplog.messages == [
        f"{source}: values are not validated by 5 patterns that cannot be read: {named}, 2 more."
    ]
    read(unread(prefix))
    assert len(caplog.messages) == 1, "they are named once"


@pytest.mark.parametrize("keyword", ["not", "if"])
def test_a_condition_with_a_pattern_that_cannot_be_read_does_not_apply_to_everything(keyword: str) -> None:
    condition: JSONObject = {keyword: {"pattern": r"^[\w-.]+!$"}, "then": {"maxLength": 1}}
    name: JSONObject = {"type": "string", "pattern": r"^[\w-.]+$"}  # a property, not a condition
    schema: JSONObject = {
        "type": "object",
        "properties": {"a": {"type": "string", **condition}, keyword: name},
        "additionalProperties": False,
    }
    made = tw.Tool(name="t", description="d", parameters=schema, kind="external")
    assert made.validator is not None
    assert made.validator.read({"a": "text", keyword: "?"}) == {"a": "text", keyword: "?"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["query", "limit", "ratio", "filter", "pet", "on"])
OBJECTS = st.dictionaries(FIELDS | st.text(max_size=5), VALUES, max_size=5)
VALIDATOR = jsonschema_rs.validator_for(search.parameters, offline=True, validate_formats=True)


@requirement("S2-3.4-1")
@settings(max_examples=150, deadline=None)
@given(OBJECTS)
def test_nothing_passes_that_the_schema_refuses_and_nothing_raises(value: JSONObject) -> None:
    validator = search.validator
    assert validator is not None
    try:
        read = validator.read(json.dumps(value))
    except InvalidArguments:
        return
    assert VALIDATOR.is_valid(read)
    assert read == value


@settings(max_examples=150, deadline=None)
@given(st.text() | st.binary())
def test_any_text_is_read_or_refused_in_words(text: str | bytes) -> None:
    validator = ArgumentValidator({"type": "object"}, "any")
    try:
        assert isinstance(validator.read(text), dict)
    except InvalidArguments as error:
        assert str(error).startswith("Invalid arguments: ")


def test_of_a_name_that_is_given_twice_the_last_counts() -> None:
    """A second pass over every text would take longer than the whole validation (docs/guides/tools.md)."""
    validator = ArgumentValidator({"type": "object", "properties": {"a": {"type": "integer"}}}, "t")
    assert validator.read('{"a": 1, "a": 2}') == {"a": 2}


class Feline(BaseModel):
    lives: int
    name: str


class Hound(BaseModel):
    bark: str
    tail: int


@tool(name="pet", description="Pet.")
async def pet(animal: Feline | Hound, owner: Literal["a"] | Hound = "a") -> str:
    return "done"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            {"animal": {}},
            "animal: fits none of the forms it may have: (lives: is missing; name: is missing) or "
            "(bark: is missing; tail: is missing).",
        ),
        ({"animal": {"bark": 1, "tail": 2}}, "animal.bark: must be a string, not a number."),
        (
            {"animal": {"bark": "wow", "lives": 9}},
            "animal: fits none of the forms it may have: (name: is missing; bark: is not a known argument) or "
            "(tail: is missing; lives: is not a known argument).",
        ),
    ],
)
async def test_branches_of_a_union_that_are_equally_close_are_all_named(arguments: Any, error: str) -> None:
    result = await Toolset([pet]).call("pet", arguments)
    assert result.error == f"Invalid arguments: {error}"


class Looked(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def look_up(cls, name: str) -> str:
        return {"one": "1"}[name]


async def test_a_key_error_of_a_validator_is_named_with_its_type() -> None:
    @tool(name="call_it", description="Call.")
    async def call_it(x: Looked) -> str:
        return x.name

    result = await Toolset([call_it]).call("call_it", {"x": {"name": "four"}})
    assert result.error == "Invalid arguments: x: KeyError: 'four'."
