"""Tools that a provider refuses: it receives an equivalent, and the tool's own schema validates the arguments."""

import json
import logging
import math
from dataclasses import replace
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest as NativeRequest
from pydantic_ai.messages import UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as NativeTool

import toolwright as tw
from tests.kit import ran
from tests.models.asking import SEARCH, ask, request, user
from tests.models.conftest import WIRES
from tests.models.wire_server import WireCall, WireServer
from toolwright import testing
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.tools import MAX_REFUSED
from toolwright.core.errors import ModelRefused
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ToolDefinition
from toolwright.core.schemas.provider_forms import ToolError, provider_form
from toolwright.core.schemas.provider_rules import PROVIDER_RULES, broken_rule
from toolwright.core.tools.tool import Tool

pytestmark = pytest.mark.anyio

NODE: JSONObject = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
    "required": ["n"],
}
REQUIRES_M: JSONObject = {"required": ["m"]}
DRAFT_4: JSONObject = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "id": "http://example.com/tool",
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        "pair": {"type": "array", "items": [{"$ref": "#/definitions/Letter"}], "additionalItems": False},
        "same": {"$ref": "#/properties/pair/items/0", "description": "ignored beside a reference"},
    },
    "required": ["n"],
    "definitions": {"Letter": {"type": "string", "maxLength": 1}},
    "dependencies": {"same": ["pair"]},
}
ODD: dict[str, Any] = {  # three objects each, whose type pyright infers too narrowly
    # schema, valid arguments, invalid arguments
    "any_of": (
        {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "anyOf": [{"required": ["n"]}, {"properties": {"s": {"type": "string"}}, "required": ["s"]}],
        },
        {"s": "a"},
        {"x": 1},
    ),
    "one_of": (
        {"oneOf": [{"$ref": "#/$defs/Node"}, {"type": "string"}], "$defs": {"Node": NODE}},
        {"n": 1, "next": {"n": 2}},
        {"n": 1, "next": {"n": "2"}},
    ),
    "all_of": (
        {"allOf": [NODE | {"properties": {"n": {"type": "integer"}}}, {"required": ["m"]}]},
        {"n": 1, "m": 2},
        {"n": 1},
    ),
    "not": ({"type": "object", "not": {"required": ["n"]}}, {"m": 1}, {"n": 1}),
    "enum": ({"type": "object", "enum": [{"n": 1}]}, {"n": 1}, {"n": 2}),
    "reference": (
        {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
        {"n": 1, "next": {"n": 3}},
        {"next": {"n": 3}},
    ),
    "no_items": ({"type": "object", "properties": {"l": {"type": "array"}}}, {"l": [1, "a"]}, {"l": 1}),
    "names": (
        {
            "type": "object",
            "properties": {
                "filter[name]": {"type": "string"},
                "$top": {"type": "integer"},
                "rows": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"a b": {"type": "integer"}}},
                },
            },
            "required": ["$top"],
        },
        {"$top": 1, "filter[name]": "x", "rows": [{"a b": 1}]},
        {"$top": "1"},
    ),
    "draft_4": (DRAFT_4, {"n": 2, "pair": ["a"], "same": "b"}, {"n": 1}),
    "pattern": (
        {"type": "object", "properties": {"p": {"type": "string", "pattern": "^\\p{L}+$"}}},
        {"p": "é"},
        {"p": "1"},
    ),
    "untyped": ({"properties": {"n": {"type": "integer"}}}, {"n": 1}, {"n": "1"}),
}


def echo(state: tw.ThreadState, arguments: JSONObject) -> JSONObject:
    return arguments


def tool_of(name: str, schema: JSONObject) -> Tool:
    return Tool(name=name, description="Odd.", parameters=schema, handler=echo)


def sent_tools(server: WireServer) -> dict[str, Any]:
    """Return the tools of the last request: name → the whole entry."""
    tools: Any = server.requests[-1].body.get("tools", [])
    return {each.get("function", each)["name"]: each.get("function", each) for each in tools}


def as_written(wire: str, name: str, arguments: JSONObject) -> str:
    """Return the arguments as written by a model that knows the tool's description."""
    form = provider_form(
        ToolDefinition(name=name, description="Odd.", parameters=ODD[name][0]),
        "anthropic" if wire == "/v1/messages" else "openai",
    )
    assert not isinstance(form, ToolError)
    text = json.dumps(arguments)
    return text if form.names is None else form.names.wire(text)


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_tool_works_beside_a_fine_one_and_its_own_schema_validates(
    model: PydanticAIModel, server: WireServer, name: str
) -> None:
    schema, right, wrong = ODD[name]
    app = tw.App(
        agents=[tw.Agent("a", tw.Prompt("a", "Work.", model=model, tools=[tool_of(name, schema), fine]))]
    )
    path = {"openai-chat:gpt-4o": "/v1/chat/completions", "openai:gpt-4o": "/v1/responses"}.get(
        model.name, "/v1/messages"
    )
    written = [as_written(path, name, each) for each in (right, wrong)]
    calls = [WireCall(id=f"c{n}", name=name, arguments=(each,)) for n, each in enumerate(written)]
    server.answer(calls=[*calls, WireCall(id="f", name="fine", arguments=("{}",))])
    server.answer(text=["Done."])
    async with testing.runtime(app) as rt:
        run = await ran(rt, "a")
        assert (run.status, run.error) == ("completed", None)
        made = {call.model_call_id: call for call in await rt.calls.list(status=None)}
    assert made["c0"].result == {"status": "success", "result": right}
    assert made["c1"].status == "error"
    assert "Invalid arguments" in str(made["c1"].result)
    assert json.loads(made["c0"].arguments) == right
    if path == "/v1/messages" and name == "names":
        whole = json.dumps(server.requests[-1].body)
        assert "Invalid arguments: top: must be an integer" in whole
        told = sent_tools(server)["names"]["input_schema"]
        assert told["properties"]["top"]["description"] == "The name of this property is '$top'"
        assert told["required"] == ["top"]
        messages: Any = server.requests[-1].body["messages"]
        assert messages[1]["content"][0]["input"] == {"top": 1, "filter_name": "x", "rows": [{"a_b": 1}]}


@tw.tool(description="Fine.")
def fine() -> str:
    return "fine"


@pytest.mark.parametrize(
    "rule", [each for each in PROVIDER_RULES if each.name != "tool name"], ids=lambda rule: rule.name
)
def test_every_rule_is_broken_by_an_odd_tool_and_kept_by_its_form(rule: Any) -> None:
    tools = [
        ToolDefinition(name="odd", description="Odd.", parameters=schema) for schema, _, _ in ODD.values()
    ]
    unreadable: JSONObject = {"type": "object", "properties": {"n": {"maximum": math.inf, "title": "\ud800"}}}
    tools.append(ToolDefinition(name="odd", description="\ud800", parameters=unreadable))
    breaking = [tool for tool in tools if rule.broken(tool) is not None]
    assert breaking, rule.name
    for tool in breaking:
        for provider in rule.providers:
            form = provider_form(tool, provider)
            assert not isinstance(form, ToolError)
            assert broken_rule(form.definition, provider) is None
            assert rule.source


async def test_a_tool_without_an_equivalent_is_left_out_and_named(
    model: PydanticAIModel, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    lost = ToolDefinition(
        name="lost",
        description="Lost.",
        parameters={"type": "object", "properties": {"a": {"$ref": "#/anyOf/0"}}, "anyOf": [{}]},
    )
    server.answer(text=["Hi."])
    tools = (lost, SEARCH)
    await ask(model, request(user("Hello"), tools=tools))
    assert [*sent_tools(server)] == ["search"]
    [fault] = model.tool_faults(tools)
    assert fault.tool == "lost"
    assert "draft 2020-12" in fault.message
    assert any("'lost' is withheld" in each.message for each in caplog.records)


async def test_a_tool_that_the_provider_refuses_all_the_same_is_withheld_and_the_request_made_again(
    model: PydanticAIModel, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.dislikes = {"odd", "odder"}
    tools = tuple(
        [
            ToolDefinition(name=name, description="D.", parameters={"type": "object", "properties": {}})
            for name in ("odd", "fine", "odder")
        ]
    )
    for _ in range(2):
        server.answer(text=["Hi."])
        await ask(model, request(user("Hello"), tools=tools))
        assert [*sent_tools(server)] == ["fine"]
    assert len(server.requests) == 4, "two were refused, and never asked for again"
    assert {fault.tool for fault in model.tool_faults(tools)} == {"odd", "odder"}
    assert all("it is not liked" in fault.message for fault in model.tool_faults(tools))
    server.dislikes = set()
    server.answer(text=["Hi."])
    mended = tuple([replace(tool, description="Mended.") for tool in tools])
    await ask(model, request(user("Hello"), tools=mended))
    assert [*sent_tools(server)] == ["odd", "fine", "odder"]


async def test_a_provider_that_names_each_tool_has_another_cause_and_all_are_offered_again(
    model: PydanticAIModel, server: WireServer
) -> None:
    tools = tuple([replace(SEARCH, name=f"t{n}") for n in range(MAX_REFUSED + 3)])
    server.fail(400, "tools.0: something else is wrong", times=50)
    with pytest.raises(ModelRefused, match="something else"):
        await ask(model, request(user("Hello"), tools=tools))
    assert len(server.requests) == len(tools)
    assert not model.tool_faults(tools)


async def test_many_rejected_tools_do_not_end_a_run_that_has_another(
    model: PydanticAIModel, server: WireServer
) -> None:
    tools = tuple([replace(SEARCH, name=f"t{n}") for n in range(2 * MAX_REFUSED)])
    server.dislikes = {tool.name for tool in tools[1:]}
    server.answer(text=["Hi."])
    await ask(model, request(user("Hello"), tools=tools))
    assert [*sent_tools(server)] == ["t0"]
    assert len(model.tool_faults(tools)) == len(tools) - 1


LONG = "\n".join(f"Line {n} says what the tool does. Ignore the rest." for n in range(60))
UNBROKEN = "x" * 3_000


@pytest.mark.parametrize("count", [1, 2, 120])
@pytest.mark.parametrize("text", [LONG, UNBROKEN, f"{LONG[:1_000]} {'🙂' * 2_000}"])
async def test_a_description_that_is_too_long_for_chat_completions_continues_in_the_instructions(
    make_model: Any, server: WireServer, text: str, count: int
) -> None:
    tools = tuple([replace(SEARCH, name=f"t{n}", description=text) for n in range(count)])
    model = make_model(WIRES[0])
    server.answer(text=["Hi."])
    await ask(model, request(user("Hello"), tools=(*tools, SEARCH)))
    assert len(server.requests) == 1 and not model.tool_faults(tools)
    sent = sent_tools(server)
    assert sent["search"]["description"] == SEARCH.description
    messages: Any = server.requests[-1].body["messages"]
    system = "\n".join(each["content"] for each in messages if each["role"] == "system")
    for tool in tools:
        beginning = sent[tool.name]["description"]
        assert len(beginning) <= 1_024
        beginning = beginning.removesuffix(" … (continues in the instructions)")
        after = system.partition(f"\n{tool.name}:\n")[2].partition("\n\n")[0]
        assert all(line.startswith("> ") for line in after.splitlines())
        end = "\n".join(line.removeprefix("> ") for line in after.splitlines())
        assert [*f"{beginning} {end}".split()] == text.split() or beginning + end == text
        assert tool.description == text


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_other_wires_have_the_whole_description(wire: str, make_model: Any, server: WireServer) -> None:
    server.answer(text=["Hi."])
    await ask(make_model(wire), request(user("Hello"), tools=(replace(SEARCH, description=LONG),)))
    assert sent_tools(server)["search"]["description"] == LONG


async def test_a_refusal_that_names_no_tool_is_the_runs_error(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.fail(400, "Your request is no good.")
    with pytest.raises(ModelRefused, match="no good"):
        await ask(model, request(user("Hello")))
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", WIRES[:2])
async def test_more_tools_than_a_provider_documents_are_reported_with_their_number(
    wire: str, make_model: Any, server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    tools = tuple([replace(SEARCH, name=f"t{n}") for n in range(129)])
    model = make_model(wire)
    server.answer(text=["Hi."])
    with caplog.at_level(logging.WARNING):
        await ask(model, request(user("Hello"), tools=tools))
    assert [fault.message for fault in model.tool_faults(tools)] == [
        "There are 129 tools. Its provider documents at most 128 in one request."
    ]
    assert len(sent_tools(server)) == 129


@pytest.mark.parametrize("cls", [OpenAIChatModel, OpenAIResponsesModel])
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
async def test_the_list_that_is_sent_at_once_is_the_one_that_pydantic_ai_sends(
    cls: Any, choice: Any, server: WireServer
) -> None:
    tools = (SEARCH, replace(SEARCH, name="find"))
    natives = [
        NativeTool(name=t.name, description=t.description, parameters_json_schema=t.parameters, strict=False)
        for t in tools
    ]
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        native = cls(
            "gpt-4o",
            provider=OpenAIProvider(openai_client=client),
            settings=ModelSettings(parallel_tool_calls=False),
        )
        server.answer(text=["Hi."])
        server.answer(text=["Hi."])
        await ask(
            PydanticAIModel(native),
            replace(request(user("Hello"), tools=tools), system="", tool_choice=choice),
        )
        settings = ModelSettings(tool_choice=choice, parallel_tool_calls=False)
        parameters = ModelRequestParameters(function_tools=natives)
        prompt = NativeRequest([UserPromptPart("Hello")])
        async with model_request_stream(
            native, [prompt], model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                pass
    ours, theirs = [each.body for each in server.requests]
    assert ours["tools"] == theirs["tools"]
    assert {**ours, "tools": None} == {**theirs, "tools": None}
