"""Lenient tools: the usual mistakes of models in arguments are converted before the validation."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, Field, WrapValidator, field_validator, model_validator
from tests.kit import ran

import toolwright as tw
from toolwright import testing
from toolwright.core.arguments.lenient import convert
from toolwright.core.arguments.schema import Subschemas
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSON, JSONObject

pytestmark = pytest.mark.anyio


class Point(BaseModel):
    x: int
    y: float = 0.0


MANY: Any = Field(default_factory=lambda: [7])


@tw.tool(lenient=True)
async def plot(
    point: Point,
    tags: list[str],
    sizes: list[int] | None = None,
    count: int = 3,
    label: str = "none",
    either: int | str = 1,
    factor: float = 1.5,
    extra: dict[str, int] | None = None,
    mode: Literal["a", "b"] = "a",
    flag: bool = False,
    many: list[int] = MANY,
) -> JSON:
    """Plot a point."""
    return {**{k: v for k, v in locals().items() if k != "point"}, "point": point.model_dump()}


POINT: JSONObject = {"x": 1, "y": 2.0}
FINE: JSONObject = {"point": POINT, "tags": ["a"]}
DEFAULTS: JSONObject = {
    "point": POINT, "tags": ["a"], "sizes": None, "count": 3, "label": "none", "either": 1, "factor": 1.5,
    "extra": None, "mode": "a", "flag": False, "many": [7],
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (FINE, {}),
        (json.dumps(json.dumps(FINE)), {}),  # the whole object as text
        ({**FINE, "point": json.dumps(POINT)}, {}),
        ({**FINE, "point": {"x": "1", "y": "2"}}, {}),
        ({**FINE, "point": {"x": "1", "y": None}}, {"point": {"x": 1, "y": 0.0}}),
        ({**FINE, "point": ' {"x": "1", "y": "2.0"}\n'}, {}),
        ({**FINE, "tags": '["a"]'}, {}),
        ({**FINE, "sizes": '[1, "2"]'}, {"sizes": [1, 2]}),
        ({**FINE, "sizes": ["1", 2]}, {"sizes": [1, 2]}),
        ({**FINE, "sizes": None}, {}),
        ({**FINE, "count": "10"}, {"count": 10}),
        ({**FINE, "count": "3.0"}, {}),
        (
            {**FINE, "count": None, "label": None, "mode": None, "flag": None, "many": None, "factor": None},
            {},
        ),
        ({**FINE, "label": "10"}, {"label": "10"}),  # a text where texts are allowed
        ({**FINE, "label": "{}"}, {"label": "{}"}),
        ({**FINE, "either": "10"}, {"either": "10"}),
        ({**FINE, "factor": "2"}, {"factor": 2.0}),
        ({**FINE, "extra": '{"a": "1"}'}, {"extra": {"a": 1}}),
        ({**FINE, "many": "[1]"}, {"many": [1]}),
    ],
)
async def test_arguments_are_converted(written: JSON, read: JSONObject) -> None:
    text = written if isinstance(written, str) else json.dumps(written)
    result = await tw.Toolset([plot]).call("plot", text)
    assert result.result == {**DEFAULTS, **read}, result.error


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"tags": ["a"], "point": None}, "point"),
        ({**FINE, "point": "x, y"}, "point"),
        ({**FINE, "point": '{"x": "one"}'}, "point.x"),
        ({**FINE, "count": "ten"}, "count"),
        ({**FINE, "count": "1.5"}, "count"),
        ({**FINE, "count": "NaN"}, "count"),
        ({**FINE, "count": "1e999"}, "count"),
        ({**FINE, "count": " "}, "count"),
        ({**FINE, "flag": "true"}, "flag"),
        ({**FINE, "tags": "a, b"}, "tags"),
        ({**FINE, "unknown": None}, "unknown"),
        ({**FINE, "tags": "[" * 300 + "]" * 300}, "tags"),
        ("[1]", "object"),
        ('"[1]"', "object"),
        ('"no JSON"', "object"),
    ],
)
async def test_what_cannot_be_converted_is_an_error(written: JSON, path: str) -> None:
    result = await tw.Toolset([plot]).call(
        "plot", written if isinstance(written, str) else json.dumps(written)
    )
    assert (result.status, result.error_code) == ("error", "invalid_arguments")
    assert path in (result.error or "")


async def test_other_tools_convert_nothing() -> None:
    @tw.tool
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    toolset = tw.Toolset([add])
    for arguments in ({"a": "1"}, {"a": 1, "b": None}):
        assert (await toolset.call("add", arguments)).error_code == "invalid_arguments"
    [strict] = toolset
    assert add.handler is not None
    assert strict.definition == tw.tool(lenient=True, name="add")(add.handler).definition


CONFIGURED: JSONObject = {
    "name": "look",
    "description": "Look.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "filter": {"$ref": "#/$defs/Filter"},
            "any": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "boolean"}]},
            "page": {"type": "integer", "default": 1},
        },
        "required": ["filter"],
        "$defs": {"Filter": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
    },
    "executionType": "internal",
    "lenient": True,
}


@pytest.mark.parametrize("door", ["configuration", "tw.Tool"])
async def test_a_configured_tool_can_be_lenient(door: str) -> None:
    tool = tw.Tool.from_config(CONFIGURED)
    if door == "tw.Tool":
        parameters: Any = CONFIGURED["inputSchema"]
        tool = tw.Tool(name="look", description="Look.", kind="internal", parameters=parameters, lenient=True)
    app = tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Look.", model="scripted", tools=[tool]))])
    written = {"filter": '{"n": "5"}', "any": '["1", 2]', "page": None}
    model = testing.ScriptedModel([{"calls": [{"name": "look", "args": written}]}, {"text": "Done."}])
    async with testing.runtime(app, model=model) as rt:
        run = await ran(rt, "a")
        assert run.error is None
        [call] = await rt.calls.list(status=None)
    assert json.loads(call.arguments) == written, "it is recorded as received"
    result: Any = call.result
    assert result["result"]["args"] == {"filter": {"n": 5}, "any": [1, 2]}


def test_the_conversion_is_bounded_and_what_is_beyond_stays_as_received() -> None:
    depth = 9
    definitions: JSONObject = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "integer"}
    schema: JSONObject = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/d0"}}},
        "$defs": definitions,
    }
    items: list[JSON] = [*["x"] * 400, "7"]
    before: JSONObject = {"a": items}
    assert convert(Subschemas(schema), before) == before, "its end is not reached"
    few: JSONObject = {"a": ["x", "7"]}
    assert convert(Subschemas(schema), few) == {"a": ["x", 7]}
    text: JSONObject = {"a": json.dumps([1] * 20)}
    assert convert(Subschemas(schema), text, 10) == text, "the text has more values"
    assert convert(Subschemas(schema), text, 100) == {"a": [1] * 20}


@pytest.mark.parametrize("kind", ["external", "space"])
def test_a_tool_that_is_executed_elsewhere_cannot_be_lenient(kind: Any) -> None:
    with pytest.raises(DefinitionError, match="cannot be lenient"):
        tw.Tool(name="look", description="Look.", kind=kind, lenient=True)
    with pytest.raises(InvalidConfiguration, match="lenient must not be true"):
        tw.Tool.from_config({**CONFIGURED, "executionType": kind})


# --- validators of the app that convert values first ---


def split(value: object) -> object:
    return value.split(",") if isinstance(value, str) else value


def wrapped(value: object, handler: Any) -> object:
    return handler(split(value))


class Before(BaseModel):
    tags: list[str]

    @field_validator("tags", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return split(value)


class Whole(BaseModel):
    tags: list[str]

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"tags": split(value)} if isinstance(value, str) else value


@dataclass
class Plain:
    tags: Annotated[list[str], BeforeValidator(split)]


async def of_before(tags: Annotated[list[str], BeforeValidator(split)], n: int = 1) -> JSON:
    """Tag."""
    return list(tags)


async def of_wrap(tags: Annotated[list[str], WrapValidator(wrapped)], n: int = 1) -> JSON:
    """Tag."""
    return list(tags)


async def of_optional(tags: Annotated[list[str], BeforeValidator(split)] | None = None, n: int = 1) -> JSON:
    """Tag."""
    return None if tags is None else list(tags)


async def of_list(tags: list[Annotated[list[str], BeforeValidator(split)]], n: int = 1) -> JSON:
    """Tag."""
    return tags[0]  # type: ignore[return-value]  # it is a list of texts


async def of_field(tags: Before, n: int = 1) -> JSON:
    """Tag."""
    return tags.tags  # type: ignore[return-value]  # the same


async def of_model(tags: Whole, n: int = 1) -> JSON:
    """Tag."""
    return tags.tags  # type: ignore[return-value]  # the same


async def of_dataclass(tags: Plain, n: int = 1) -> JSON:
    """Tag."""
    return tags.tags  # type: ignore[return-value]  # the same


CONVERTED = [
    (of_before, "a,b", ["a", "b"]),
    (of_wrap, "a,b", ["a", "b"]),
    (of_optional, "a,b", ["a", "b"]),
    (of_list, ["a,b"], [["a", "b"]]),
    (of_field, {"tags": "a,b"}, {"tags": ["a", "b"]}),
    (of_model, "a,b", {"tags": ["a", "b"]}),
    (of_dataclass, {"tags": "a,b"}, {"tags": ["a", "b"]}),
]


@pytest.mark.parametrize(
    ("function", "written", "plain"), CONVERTED, ids=[each[0].__name__ for each in CONVERTED]
)
async def test_a_validator_before_the_type_has_its_effect(function: Any, written: JSON, plain: JSON) -> None:
    tool = tw.tool(function)
    toolset = tw.Toolset([tool])
    for value in (written, plain):
        assert (await toolset.call(tool.name, {"tags": value, "n": 3.0})).result == ["a", "b"]
    wrong = await toolset.call(tool.name, {"tags": 5, "n": "x"})
    assert wrong.error_code == "invalid_arguments"
    assert "n: must be an integer" in (wrong.error or "")
    assert (await toolset.call(tool.name, {"tags": 5})).error_code == "invalid_arguments"
    assert (await toolset.call(tool.name, {"tags": written, "m": 1})).error_code == "invalid_arguments"
    schema: Any = tool.parameters["properties"]
    assert schema["tags"] != {}, "the model reads the type"


async def test_a_model_of_arguments_can_convert_first() -> None:
    @tw.tool(args=Before)
    async def tag(given: Before) -> JSON:
        """Tag."""
        return list(given.tags)

    assert (await tw.Toolset([tag]).call("tag", {"tags": "a,b"})).result == ["a", "b"]
    assert (await tw.Toolset([tag]).call("tag", {"tags": 5})).error_code == "invalid_arguments"


async def test_a_declared_type_of_the_input_is_the_schema() -> None:
    @tw.tool
    async def tag(tags: Annotated[list[str], BeforeValidator(split, json_schema_input_type=str)]) -> JSON:
        """Tag."""
        return list(tags)

    properties: Any = tag.parameters["properties"]
    assert properties["tags"]["type"] == "string"
    assert (await tw.Toolset([tag]).call("tag", {"tags": "a,b"})).result == ["a", "b"]
    assert (await tw.Toolset([tag]).call("tag", {"tags": ["a"]})).error_code == "invalid_arguments"
