"""The schemas of tools on the wire: a provider gets each as published, or an equivalent that it accepts."""

from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.deepseek import DeepSeekProvider

import toolwright as tw
from tests.kit import send_to
from tests.models.asking import ask, request, user
from tests.models.wire_server import WireServer
from toolwright import testing
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ToolDefinition
from toolwright.core.tools.relations import Resumable

pytestmark = pytest.mark.anyio

FREE: JSONObject = {"type": "object", "description": "Whatever the agent takes."}
PUBLISHED: dict[str, JSONObject] = {
    "nothing": {"type": "object", "properties": {}},
    "free_form": {"type": "object", "properties": {"arguments": FREE}, "required": ["arguments"]},
    "open": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True},
    "closed": {"type": "object", "properties": {"a": FREE}, "required": ["a"], "additionalProperties": False},
    "recursive": {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node", "description": "Where it begins."}},
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "title": "A node",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            }
        },
    },
    "alternatives": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "pet": {
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
                    {"type": "object", "properties": {"kind": {"const": "dog"}, "chip": FREE}},
                ],
                "discriminator": {"propertyName": "kind"},
            },
            "title": {"type": ["string", "null"], "title": "Title", "default": None},
            "only": {"anyOf": [{"type": "string"}]},
        },
    },
    "limits": {
        "type": "object",
        "properties": {
            "when": {"type": "string", "format": "date-time"},
            "mail": {"type": "string", "format": "email", "pattern": "^(?=.).*@", "minLength": 3},
            "count": {"type": "integer", "default": 3, "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            "any": {"type": "array"},
            "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
            "codes": {"type": "object", "patternProperties": {"^x": FREE}, "maxProperties": 3},
        },
        "required": ["when"],
        "if": {"required": ["mail"]},
        "then": {"properties": {"count": {"const": 4}}},
    },
}


class Branch(BaseModel):
    """A tree of things."""

    label: str = "leaf"
    branches: list["Branch"] = Field(default_factory=list["Branch"])


@tw.tool(description="Grow", args=Branch)
async def grow(tree: Branch) -> str:
    """Return the label of the tree. The tool has recursive arguments."""
    return tree.label


def _definitions(published: dict[str, JSONObject]) -> tuple[ToolDefinition, ...]:
    return tuple(ToolDefinition(name=n, description=n, parameters=s) for n, s in published.items())


def _received(server: WireServer) -> dict[str, tuple[JSON, bool]]:
    """Return each tool as the provider received it: its schema, and whether strict mode is requested."""
    tools = server.requests[-1].body["tools"]
    assert isinstance(tools, list)
    told: dict[str, tuple[JSON, bool]] = {}
    for tool in tools:
        match tool:
            case {"function": {"name": str(name), "parameters": schema} as function}:
                told[name] = schema, bool(function.get("strict"))
            case {"name": str(name), "parameters": schema} | {"name": str(name), "input_schema": schema}:
                told[name] = schema, bool(tool.get("strict"))
            case _:
                raise AssertionError(tool)
    return told


async def test_every_provider_gets_each_schema_as_it_is_published(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.answer(text=("Hi",))
    await ask(model, request(user("Hello"), tools=_definitions(PUBLISHED)))
    received = _received(server)
    if server.requests[-1].path != "/v1/messages":  # arrays without items, a pattern with lookaround
        limits: Any = received.pop("limits")[0]
        for name in ("pair", "any"):
            assert limits["properties"][name].pop("items") == {}
        mail = limits["properties"]["mail"]
        mail["pattern"] = "^(?=.).*@"
        assert mail.pop("description") == "It matches the pattern ^(?=.).*@"
        received["limits"] = limits, False
    assert received == {name: (schema, False) for name, schema in PUBLISHED.items()}


async def test_the_arguments_of_a_child_and_of_a_tree_stay_open_on_every_wire(
    model: PydanticAIModel, server: WireServer
) -> None:
    helper = tw.Agent(
        "helper", tw.Prompt("help", "Help.", model=model), tool_description="Help", expose_as_tool=True
    )
    config = tw.SubagentToolConfig(name="helper", resumable=Resumable())
    boss = tw.Agent("boss", tw.Prompt("lead", "Lead.", model=model, tools=[config, grow]))
    server.answer(text=("Hi",))
    async with testing.runtime(tw.App(agents=[helper, boss])) as rt:
        run = await send_to(rt, "boss")
        assert (await rt.runs.wait(run.id, 10)).status == "completed"
    received = _received(server)
    assert received["grow"] == (grow.parameters, False)
    create, strict = received["subagent_create"]
    assert isinstance(create, dict)
    assert isinstance(create["properties"], dict)
    assert (create["properties"]["arguments"], strict) == ({"type": "object"}, False)


async def test_an_object_without_a_word_of_its_properties_is_one_that_openai_takes(
    model: PydanticAIModel, server: WireServer
) -> None:
    published: dict[str, JSONObject] = {"any": {"type": "object"}}
    server.answer(text=("Hi",))
    await ask(model, request(user("Hello"), tools=_definitions(published)))
    full: JSONObject = {"type": "object", "properties": {}}
    wanted = published["any"] if server.requests[0].path == "/v1/messages" else full
    assert _received(server) == {"any": (wanted, False)}
    assert published == {"any": {"type": "object"}}


async def test_a_model_object_of_a_compatible_provider_leaves_open_objects_open(server: WireServer) -> None:
    server.answer(text=("Hi",))
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        native = OpenAIChatModel("deepseek-chat", provider=DeepSeekProvider(openai_client=client))
        model = PydanticAIModel(native)
        await ask(model, request(user("Hello"), tools=_definitions({"free_form": PUBLISHED["free_form"]})))
    [(schema, strict)] = _received(server).values()
    assert isinstance(schema, dict)
    assert not strict
    assert "additionalProperties" not in str(schema)
