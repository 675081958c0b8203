"""Tools from S3's JSON: the resulting tools, and the errors of invalid configurations."""

import json
import warnings
from dataclasses import replace
from typing import Any

import pytest
from tests.behaviour.marks import requirement

from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.tools.http.execution import HttpExecution
from toolwright.core.tools.tool import Kind, Tool
from toolwright.core.tools.toolset import Toolset

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def config(**fields: Any) -> dict[str, Any]:  # any JSON
    base: dict[str, Any] = {
        "name": "fetchWeather",
        "description": "Tell the weather.",
        "inputSchema": SCHEMA,
        "executionType": "external",
    }
    return {name: each for name, each in {**base, **fields}.items() if each != "absent"}


def faults(given: object, prefix: str = "") -> dict[str, str]:
    with pytest.raises(InvalidConfiguration) as caught:
        Tool.from_config(given, prefix=prefix)
    assert isinstance(caught.value, DefinitionError)
    for detail in caught.value.details:
        assert f"{detail['path']} {detail['message']}".strip() in caught.value.message
    return {each["path"]: each["message"] for each in caught.value.details}


@requirement("S3-2-1", "S3-2.1-8")
def test_the_example_of_the_document_becomes_a_tool() -> None:
    given = config(
        name="confirmAction",
        executionType="space",
        visible=True,
        isAsync=True,
        timeout=30000,
        expiresIn=60_000,
        execution={
            "url": "https://api.example.com/{city}",
            "method": "put",
            "headers": {"X-Key": "${env.KEY}"},
        },
        idempotent=True,
        variables=[
            {"name": "TOKEN", "type": "secret", "description": "Whose", "required": True, "scoped": False},
            {"name": "LANGUAGE"},
        ],
    )
    before = json.dumps(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a configured name is not checked like one in code (D18)
        tool = Tool.from_config(given)
    assert json.dumps(given) == before
    assert (tool.name, tool.kind, tool.visible, tool.is_async) == ("confirmAction", "space", True, True)
    assert (tool.timeout, tool.expires_in) == (30.0, 60.0)
    assert (tool.idempotent, tool.read_only, tool.repeatable) == (True, False, True)
    assert tool.parameters == SCHEMA
    assert tool.execution == HttpExecution(
        url="https://api.example.com/{city}",
        method="PUT",
        headers=(("X-Key", "${env.KEY}"),),
        required=("TOKEN", "LANGUAGE"),
        trusted=True,
    )
    assert tool.execution is not None
    assert tool.execution.variables == ("KEY", "TOKEN", "LANGUAGE")
    outside = Tool.from_config(given, trusted=False).execution
    assert outside is not None
    assert not outside.trusted


@requirement("S3-2.1-5", "S3-2.1-6", "S3-2.1-7", "S3-5-4")
@pytest.mark.parametrize(
    ("kind", "visible", "timeout"),
    [("gateway", True, 30.0), ("external", True, 30.0), ("space", True, 30.0), ("internal", False, None)],
)
def test_what_is_not_given_depends_on_the_type(kind: Kind, visible: bool, timeout: float | None) -> None:
    execution = {"url": "https://api.example.com/"} if kind == "gateway" else "absent"
    tool = Tool.from_config(config(executionType=kind, execution=execution))
    assert (tool.visible, tool.timeout, tool.is_async, tool.expires_in) == (visible, timeout, False, None)


@requirement("S3-9-2")
def test_visible_is_kept_by_copies() -> None:
    hidden = Tool.from_config(config(visible=False))
    shown = Tool.from_config(config())
    [one, two] = [*Toolset([hidden]).prefixed("a_"), *Toolset([shown]).prefixed("a_")]
    assert (one.visible, two.visible) == (False, True)
    assert replace(Tool.from_config(config(executionType="internal", visible=True)), name="y").visible
    assert not Tool(name="x", description="x", kind="mcp").visible


def test_the_carrier_is_http_wherever_there_is_an_execution_but_for_internal_tools() -> None:
    execution = {"url": "https://api.example.com/"}
    carriers = {
        kind: Tool.from_config(config(executionType=kind, execution=execution, isAsync=True)).carrier
        for kind in ("gateway", "external", "space", "internal")
    }
    assert carriers == {
        "gateway": "gateway",
        "external": "gateway",
        "space": "gateway",
        "internal": "internal",
    }
    assert Tool.from_config(config()).carrier == "external"


def test_an_empty_schema_takes_any_object() -> None:
    assert Tool.from_config(config(inputSchema={})).parameters == {"type": "object"}


@requirement("S3-2.2-1", "S3-10-1")
def test_every_error_is_reported_at_once_with_its_path() -> None:
    given = config(
        name=" ",
        description="absent",
        inputSchema={"type": "object", "properties": {"a": {"type": "bogus"}}},
        executionType="gateway",
        visible="yes",
        isAsync=1,
        timeout=0,
        expiresIn="1h",
        display={"customUI": True},
        execution={"url": "ftp://x", "method": "TRACE", "headers": {"Host": "x", "A": 1}, "retries": 3},
        variables=[{"type": "number", "required": "yes"}, "KEY"],
        readOnly=True,
        destructive=True,
    )
    found = faults(given, "tools.0")
    assert {path.removeprefix("tools.0.") for path in found} == {
        "name", "description", "inputSchema", "visible", "isAsync", "timeout", "expiresIn", "display",
        "execution.url", "execution.method", "execution.headers.Host", "execution.headers.A",
        "execution.retries", "variables.0.type", "variables.0.required", "variables.0.name", "variables.1",
        "destructive",
    }  # fmt: skip
    assert found["tools.0.timeout"].startswith("must be a positive number of milliseconds")
    assert found["tools.0.isAsync"] == "must be a boolean, not a number"
    assert found["tools.0.description"] == "is missing"
    assert found["tools.0.display"].startswith("is not a known field: there are name, description")
    assert found["tools.0.execution.headers.Host"] == "is set by Toolwright itself"
    assert "bogus" in found["tools.0.inputSchema"]


@requirement("S3-2.1-1", "S3-2.1-2", "S3-2.1-3", "S3-2.1-4")
@pytest.mark.parametrize("field", ["name", "description", "inputSchema", "executionType"])
def test_the_required_fields_are_required(field: str) -> None:
    assert faults(config(**{field: "absent"}))[field] == "is missing"
    assert faults(config(**{field: None}))[field] == "is missing"


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"executionType": "function"}, "executionType", "must be one of gateway, external, space, internal"),
        ({"executionType": "gateway"}, "execution.url", "is missing"),
        ({"executionType": "gateway", "execution": {}}, "execution.url", "is missing"),
        ({"executionType": "gateway", "execution": {"url": 1}}, "execution.url", "must be a string"),
        ({"execution": {"method": "GET"}}, "execution.url", "is missing"),
        ({"execution": "https://x/"}, "execution", "must be an object"),
        ({"execution": {"url": "https://x/{town}"}}, "execution.url", "which is no argument of the tool"),
        ({"execution": {"url": "https://x/", "headers": []}}, "execution.headers", "must be an object"),
        ({"executionType": "space", "visible": False}, "visible", "must be true for a space tool"),
        ({"inputSchema": {"type": "string"}}, "inputSchema.type", "must be 'object'"),
        ({"inputSchema": {"$ref": "https://example.com/schema"}}, "inputSchema", "not a valid JSON Schema"),
        ({"inputSchema": [1]}, "inputSchema", "must be an object, not an array"),
        ({"timeout": -5}, "timeout", "positive"),
        ({"timeout": True}, "timeout", "must be a number"),
        ({"expiresIn": 1e13}, "expiresIn", "at most"),
        ({"input_schema": {}}, "input_schema", "is not a known field"),
        ({"variables": {"A": 1}}, "variables", "must be an array"),
    ],
)
def test_each_error_has_its_path_and_words(fields: dict[str, Any], path: str, words: str) -> None:
    found = faults(config(**fields))
    assert list(found) == [path]
    assert words in found[path]


@pytest.mark.parametrize("given", [None, [], "x", 3])
def test_a_configuration_is_an_object(given: object) -> None:
    assert faults(given, "tools.3")["tools.3"].startswith("must be an object")
    assert faults({"name": b"x"})[""] == "name is of the type bytes, which JSON cannot represent"


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Tool(name="x", description="x", kind="space", visible=False),
        lambda: Tool(name="x", description="x", kind="external", expires_in=0),
        lambda: Tool(name="x", description="x", kind="external", expires_in=float("nan")),
        lambda: Tool(name="x", description="x", handler=lambda: 1, is_async=True),
        lambda: Tool(name="x", description="x", handler=lambda: 1, execution=HttpExecution(url="https://x/")),
        lambda: Tool(name="x", description="x", kind="gateway", execution=HttpExecution(url="https://x/{a}")),
    ],
)
def test_contradictions_in_code_are_refused(declare: Any) -> None:  # a function for each case
    with pytest.raises(DefinitionError):
        declare()


@requirement("S3-3-4")
async def test_an_internal_tool_answers_with_its_arguments_also_outside_a_run() -> None:
    shown = Tool.from_config(config(name="displayChart", executionType="internal"))
    result = await Toolset([shown]).call("displayChart", {"city": "Tokyo"})
    assert result.result == {"success": True, "args": {"city": "Tokyo"}}
    bad = await Toolset([shown]).call("displayChart", {"city": 3})
    assert bad.error_code == "invalid_arguments"


def test_a_tool_that_is_given_has_texts_of_a_length() -> None:
    assert faults(config(name="x" * 201, description="x" * 100_001), "tools.0") == {
        "tools.0.name": "must have at most 200 characters",
        "tools.0.description": "must have at most 100000 characters",
    }
    assert Tool.from_config(config(name="x" * 200, description="x" * 100_000)).name == "x" * 200
