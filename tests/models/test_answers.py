"""Answers that fit a schema: the request to each provider, and the parsing of its answer."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel, ConfigDict
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.profiles.google import GoogleModelProfile
from pydantic_ai.providers.deepseek import DeepSeekProvider
from pydantic_ai.providers.fireworks import FireworksProvider
from pydantic_ai.providers.openai import OpenAIProvider

import toolwright as tw
from tests.models.asking import SEARCH, MakeModel, answer_of, ask, assistant, only, tool, user
from tests.models.wire_server import WireCall, WireServer
from toolwright.adapters.models.providers.answer import FINAL_TOOL
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.errors import ModelRefused
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import (
    AnswerSchema,
    AttemptStarted,
    CallDelta,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    TextDelta,
    ToolDefinition,
)
from toolwright.core.threads.message import Message

pytestmark = pytest.mark.anyio

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
COMPOSED = AnswerSchema(schema=tw.compose(SUMMARY, {"greetUser": GREET}), name="reply of the desk")
RENDERED: JSONObject = {
    "type": "object",
    "properties": {
        "output": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"summary": {"type": "string"}},
                    "required": ["summary"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "_tool": {"const": "greetUser", "type": "string"},
                    "userName": {"type": "string"},
                },
                "required": ["_tool", "userName"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["calls", "output"],
    "additionalProperties": False,
}
OPTIONAL = AnswerSchema(
    schema={
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 3},
            "note": {"type": "string"},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
            "end": {"type": ["string", "null"]},
        },
        "required": ["title"],
        "$defs": {"Part": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}},
    }
)
OPEN = AnswerSchema(schema={"type": "object", "properties": {"any": {"type": "object"}}, "required": ["any"]})
LIST = AnswerSchema(schema={"type": "array", "items": {"type": "integer"}})


def request(
    answer: AnswerSchema | None, *messages: Message, tools: tuple[ToolDefinition, ...] = ()
) -> ModelRequest:
    return ModelRequest(messages=messages or (user("Hello"),), system="Be brief.", tools=tools, answer=answer)


async def sent(model: Model, server: WireServer, asked: ModelRequest) -> dict[str, Any]:
    """Return the body that the provider received."""
    server.answer(text=("{}",))
    await ask(model, asked)
    return server.requests[-1].body


def form_of(body: dict[str, Any]) -> JSONObject | None:
    """Return the structured output that a body requests: type, schema, and `strict` and `name` if the wire has them."""
    match body:
        case {"response_format": {"json_schema": form} as whole}:
            return {"type": whole["type"], **form}
        case {"response_format": form} | {"text": {"format": form}} | {"output_config": {"format": form}}:
            return form
        case _:
            return None


def final_tool_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the argument schema of the tool with which a body requests the final answer."""
    for each in body.get("tools", []):
        told = each.get("function", each)
        if told["name"] == FINAL_TOOL:
            return told.get("parameters") or told["input_schema"]
    return None


def instructions_of(body: dict[str, Any]) -> str:
    """Return all instructions of the model, without the schema and the tools."""
    return json.dumps([body.get(key) for key in ("system", "instructions", "messages", "input")])


async def test_a_composed_schema_is_asked_for_by_the_providers_own_structured_output(
    model: PydanticAIModel, server: WireServer
) -> None:
    before = json.dumps(COMPOSED.schema)
    body = await sent(model, server, request(COMPOSED))
    form = form_of(body)
    assert form is not None
    name = form.pop("name", None)
    if model.name.startswith("anthropic"):
        assert form == {"type": "json_schema", "schema": RENDERED}
    else:
        strict = {**RENDERED, "required": ["output", "calls"]}
        assert form == {"type": "json_schema", "schema": strict, "strict": True}
        assert isinstance(name, str)
        assert name.startswith("reply_of_the_desk-")
    assert "tools" not in body
    assert "summary" not in instructions_of(body)
    assert json.dumps(COMPOSED.schema) == before


async def test_no_structured_output_is_asked_for_without_an_answer(
    model: PydanticAIModel, server: WireServer
) -> None:
    assert form_of(await sent(model, server, request(None))) is None


async def test_tools_settings_and_an_answer_stand_beside_each_other(
    make_model: MakeModel, server: WireServer
) -> None:
    for name in ("openai-chat:gpt-4o", "openai:gpt-4o", "anthropic:claude-sonnet-4-6"):
        asked = replace(request(COMPOSED, tools=(SEARCH,)), settings=ModelSettings(temperature=0.5))
        body = await sent(make_model(name), server, asked)
        form: Any = form_of(body)
        assert form["schema"]["properties"] == RENDERED["properties"]
        assert len(body["tools"]) == 1
        assert "strict" not in str(body["tools"]) or body["tools"][0]["strict"] is False
        assert body["temperature"] == 0.5


async def test_what_may_be_left_out_may_be_null_where_everything_is_required(
    make_model: MakeModel, server: WireServer
) -> None:
    for name in ("openai-chat:gpt-4o", "openai:gpt-4o"):
        form: Any = form_of(await sent(make_model(name), server, request(OPTIONAL)))
        assert form["strict"] is True
        schema = form["schema"]
        assert schema["required"] == ["title", "note", "parts", "end"]
        assert schema["properties"] == {
            "title": {"type": "string", "description": "minLength: 3"},
            "note": {"type": ["string", "null"]},
            "parts": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Part"}}, {"type": "null"}]},
            "end": {"type": ["string", "null"]},
        }
        assert schema["$defs"]["Part"]["properties"] == {"n": {"type": ["integer", "null"], "minimum": 1}}


async def test_anthropic_is_not_told_of_bounds_but_in_words(
    make_model: MakeModel, server: WireServer
) -> None:
    form: Any = form_of(await sent(make_model("anthropic:claude-sonnet-5-5"), server, request(OPTIONAL)))
    assert form["schema"]["required"] == ["title"]
    assert form["schema"]["$defs"]["Part"] == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "minimum: 1"}},
        "additionalProperties": False,
    }


async def test_a_schema_without_strict_form_is_sent_as_it_is_or_is_that_of_a_final_tool(
    model: PydanticAIModel, server: WireServer
) -> None:
    body = await sent(model, server, request(OPEN))
    if model.name.startswith("anthropic"):
        assert form_of(body) is None
        assert final_tool_of(body) == OPEN.schema
    else:
        wanted: JSONObject = {"type": "json_schema", "name": "answer", "schema": OPEN.schema, "strict": False}
        assert form_of(body) == wanted
        assert "any" not in instructions_of(body)


class Extensible(BaseModel):
    model_config = ConfigDict(extra="allow")
    title: str


class Empty(BaseModel):
    pass


class Around(BaseModel):
    inner: Extensible


@pytest.mark.parametrize("kind", [Extensible, Empty, Around])
async def test_an_answer_with_fields_of_any_name_is_not_closed(
    model: PydanticAIModel, server: WireServer, kind: type[BaseModel]
) -> None:
    schema = kind.model_json_schema()
    body = await sent(model, server, request(AnswerSchema(schema=schema)))
    if model.name.startswith("anthropic"):
        assert final_tool_of(body) == schema
    else:
        form: Any = form_of(body)
        assert (form["strict"], form["schema"]) == (False, schema)


async def test_a_schema_beyond_anthropics_limits_is_that_of_a_final_tool(
    make_model: MakeModel, server: WireServer
) -> None:
    node: JSONObject = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    recursive: JSONObject = {**node, "$defs": {"Node": node}}
    wide: JSONObject = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(25)}}
    for schema in (recursive, wide):
        body = await sent(
            make_model("anthropic:claude-sonnet-5-5"), server, request(AnswerSchema(schema=schema))
        )
        assert form_of(body) is None
        assert final_tool_of(body) == schema


async def test_an_answer_that_is_no_object_is_the_argument_of_a_final_tool(
    model: PydanticAIModel, server: WireServer
) -> None:
    body = await sent(model, server, request(LIST))
    assert form_of(body) is None
    assert "Be brief." in instructions_of(body)
    parameters = final_tool_of(body)
    assert parameters is not None
    assert (parameters["properties"], parameters["required"]) == ({"answer": LIST.schema}, ["answer"])
    server.answer(calls=[WireCall(name=FINAL_TOOL, arguments=('{"answer":', " [1, 2]}"))])
    events = await ask(model, request(LIST))
    answer = events[-1]
    assert isinstance(answer, ModelResponse)
    assert (answer.text, answer.calls, only(events, CallDelta)) == ("[1,2]", (), [])


@pytest.mark.parametrize("tools", [(), (SEARCH,)])
async def test_a_model_without_structured_output_answers_by_a_final_tool(
    server: WireServer, tools: tuple[ToolDefinition, ...]
) -> None:
    async with chat_model(server, {"supports_json_schema_output": False}) as model:
        body = await sent(model, server, request(OPTIONAL, tools=tools))
        assert form_of(body) is None
        assert final_tool_of(body) == OPTIONAL.schema
        assert len(body["tools"]) == len(tools) + 1
        pieces = ('{"title": "T"', ', "end": null}')
        server.answer(calls=[WireCall(name=FINAL_TOOL, arguments=pieces)])
        events = await ask(model, request(OPTIONAL, tools=tools))
        answer = events[-1]
        assert isinstance(answer, ModelResponse)
        assert (answer.text, answer.calls) == ("".join(pieces), ())
        assert only(events, CallDelta) == []
        assert "".join(each.text for each in only(events, TextDelta)) == answer.text
        again = request(OPTIONAL, user("Go"), assistant(answer), user("Again"), tools=tools)
        conversation = (await sent(model, server, again))["messages"]
        assert [(each["role"], each.get("content")) for each in conversation[2:]] == [
            ("assistant", answer.text),
            ("user", "Again"),
        ]
        assert FINAL_TOOL not in json.dumps(conversation)


async def test_a_final_call_beside_others_waits_for_them(server: WireServer) -> None:
    async with chat_model(server, {"supports_json_schema_output": False}) as model:
        server.answer(
            text=("I look.",),
            calls=[
                WireCall(id="c1", name="search", arguments=('{"q":"x"}',)),
                WireCall(id="c2", name=FINAL_TOOL, arguments=('{"title":"T"}',)),
            ],
        )
        events = await ask(model, request(OPTIONAL, tools=(SEARCH,)))
        answer = events[-1]
        assert isinstance(answer, ModelResponse)
        assert (answer.text, [call.name for call in answer.calls]) == ("I look.", ["search"])
        assert only(events, TextDelta) == [TextDelta(text="I look.")]
        messages = (user("Go"), assistant(answer, native=answer.native), tool("c1", "found"))
        body = await sent(model, server, request(OPTIONAL, *messages, tools=(SEARCH,)))
        assert FINAL_TOOL not in json.dumps(body["messages"])
        [described] = [
            each["function"]["description"]
            for each in body["tools"]
            if each["function"]["name"] == FINAL_TOOL
        ]
        assert "together with other calls it is ignored" in described


async def test_a_run_gets_the_errors_of_a_final_answer_and_ends_with_its_instance(
    server: WireServer,
) -> None:
    async with chat_model(server, {"supports_json_schema_output": False}) as model:
        server.answer(calls=[WireCall(name=FINAL_TOOL, arguments=('{"answer": ["one"]}',))])
        server.answer(calls=[WireCall(name=FINAL_TOOL, arguments=('{"answer": [1]}',))])
        result = await tw.run(tw.Agent("counter", model=model, output=list[int]), "Which?")
    assert (result.output, result.text, len(result.calls)) == ([1], "[1]", 0)
    told = server.requests[1].body["messages"]
    assert "does not fit the schema" in str(told)


@pytest.mark.parametrize("text", ["not JSON", '{"answer": ', "[1]", "7"])
async def test_a_final_answer_that_is_not_json_is_left_to_the_validator(
    make_model: MakeModel, server: WireServer, text: str
) -> None:
    server.answer(calls=[WireCall(name=FINAL_TOOL, arguments=(text,))])
    answer = await answer_of(make_model("openai:gpt-4o"), request(LIST))
    assert (answer.text, answer.calls) == (text, ())


@pytest.mark.parametrize(
    ("profile", "choice", "tool_name", "wanted"),
    [
        ({"supports_tools": False}, "auto", None, {"type": "json_object"}),
        ({"supports_tools": False, "supports_json_object_output": False}, "auto", None, None),
        ({}, "none", "search", {"type": "json_object"}),
        ({}, "auto", FINAL_TOOL, {"type": "json_object"}),
    ],
)
async def test_where_no_final_tool_can_be_the_schema_is_told_in_words(
    server: WireServer,
    profile: ModelProfile,
    choice: Literal["auto", "none"],
    tool_name: str | None,
    wanted: JSON,
) -> None:
    tools = () if tool_name is None else (replace(SEARCH, name=tool_name),)
    async with chat_model(server, {"supports_json_schema_output": False, **profile}) as model:
        body = await sent(model, server, replace(request(OPTIONAL, tools=tools), tool_choice=choice))
    assert form_of(body) == wanted
    assert len(body.get("tools", [])) == len(tools)
    assert "compatible with this schema" in instructions_of(body)
    assert "additionalProperties" not in instructions_of(body)


async def test_a_final_tool_for_a_compatible_provider_leaves_open_objects_open(server: WireServer) -> None:
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        native = OpenAIChatModel("deepseek-chat", provider=DeepSeekProvider(openai_client=client))
        body = await sent(PydanticAIModel(native), server, request(OPEN))
    parameters = final_tool_of(body)
    assert parameters is not None
    assert parameters["properties"]["any"]["type"] == "object"
    assert "additionalProperties" not in str(parameters)


async def test_a_compatible_provider_gets_the_same_rendering(server: WireServer) -> None:
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        provider = FireworksProvider(openai_client=client)
        model = PydanticAIModel(OpenAIChatModel("accounts/fireworks/models/any", provider=provider))
        composed: Any = form_of(await sent(model, server, request(COMPOSED)))
        as_it_is: Any = form_of(await sent(model, server, request(OPEN)))
    assert (composed["strict"], composed["schema"]["properties"]) == (True, RENDERED["properties"])
    assert as_it_is["strict"] is False
    assert "additionalProperties" not in str(as_it_is)


@asynccontextmanager
async def chat_model(server: WireServer, profile: ModelProfile) -> AsyncGenerator[PydanticAIModel]:
    """Yield a model of chat completions with this profile."""
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k") as client:
        provider = OpenAIProvider(openai_client=client)
        yield PydanticAIModel(OpenAIChatModel("gpt-4o", provider=provider, profile=profile))


class Gemini(FunctionModel):
    """A model of a provider that supports no structured output together with tools; it records its requests."""

    def __init__(self, combines: bool) -> None:
        self.modes: list[str] = []
        takes = ModelProfile(supports_json_schema_output=True)
        both = GoogleModelProfile(google_supports_tool_combination=combines)
        super().__init__(stream_function=self._answer, profile=merge_profile(takes, both))

    @property
    def system(self) -> str:
        """The provider's name."""
        return "google"

    async def _answer(self, _: list[ModelMessage], asked: AgentInfo) -> AsyncIterator[str]:
        self.modes.append(asked.model_request_parameters.output_mode)
        yield "{}"


@pytest.mark.parametrize(("combines", "beside_tools"), [(False, "text"), (True, "native")])
async def test_structured_output_is_not_asked_for_beside_tools_where_a_provider_refuses_that(
    combines: bool, beside_tools: str
) -> None:
    gemini = Gemini(combines)
    model = PydanticAIModel(gemini)
    for tools in ((), (SEARCH,)):
        await ask(model, request(COMPOSED, tools=tools))
    assert gemini.modes == ["native", beside_tools]


async def test_each_answer_is_rendered_once(model: PydanticAIModel, server: WireServer) -> None:
    answer = AnswerSchema(schema={**SUMMARY})
    first = form_of(await sent(model, server, request(answer)))
    answer.schema["description"] = "a later change, which shows that nobody looks again"
    assert form_of(await sent(model, server, request(answer))) == first
    assert form_of(await sent(model, server, request(AnswerSchema(schema=answer.schema)))) != first


async def test_a_strict_answer_is_read_without_the_nulls_of_what_was_left_out(
    model: PydanticAIModel, server: WireServer
) -> None:
    pieces = ('{"title": "T", "note": null, ', '"parts": [{"n": null}, {"n": 2}], "end": null}')
    server.answer(text=pieces)
    events = await ask(model, request(OPTIONAL))
    assert only(events, TextDelta) == [TextDelta(text=piece) for piece in pieces]
    server.answer(text=pieces)
    answer = await answer_of(model, request(OPTIONAL))
    if model.name.startswith("anthropic"):
        assert answer.text == "".join(pieces)
    else:
        assert answer.text == '{"title":"T","parts":[{},{"n":2}],"end":null}'


@pytest.mark.parametrize(
    "text", ['{ "title": "T" }', "Sorry, no.", '{"title": ', '{"title": NaN, "note": null}', "[" * 10_000]
)
async def test_an_answer_without_such_nulls_stays_as_it_was_written(
    make_model: MakeModel, server: WireServer, text: str
) -> None:
    server.answer(text=(text,))
    assert (await answer_of(make_model("openai:gpt-4o"), request(OPTIONAL))).text == text


async def test_a_long_strict_answer_is_read_like_a_short_one(
    make_model: MakeModel, server: WireServer
) -> None:
    parts: list[JSON] = [{"n": None}, {"n": 1}] * 10_000
    server.answer(text=(json.dumps({"title": "T", "note": None, "parts": parts, "end": None}),))
    answer = await answer_of(make_model("openai:gpt-4o"), request(OPTIONAL))
    assert json.loads(answer.text) == {"title": "T", "parts": [{}, {"n": 1}] * 10_000, "end": None}


async def test_the_provider_reads_its_own_words_again_with_its_reasoning(
    make_model: MakeModel, server: WireServer
) -> None:
    model = make_model("openai:gpt-6.1-terra")
    text = '{"title": "T", "note": null, "parts": null, "end": null}'
    server.answer(thinking=("Hmm",), signature="encrypted", text=(text,))
    answer = await answer_of(model, request(OPTIONAL))
    assert answer.text == '{"title":"T","end":null}'
    message = assistant(answer, native=json.loads(json.dumps(answer.native)))
    body = await sent(model, server, request(OPTIONAL, user("Go"), message, user("Again")))
    [reasoning] = [item for item in body["input"] if item.get("type") == "reasoning"]
    [said] = [item for item in body["input"] if item.get("role") == "assistant"]
    assert (reasoning["id"], reasoning["encrypted_content"]) == ("rs_1", "encrypted")
    assert (said["id"], said["content"][0]["text"]) == ("msg_1", text)
    changed = replace(message, content='{"title":"[redacted:T]","end":null}')
    body = await sent(model, server, request(OPTIONAL, user("Go"), changed, user("Again")))
    assert text not in instructions_of(body)
    assert "[redacted:T]" in instructions_of(body)


async def test_a_call_beside_an_answer_is_read_as_before(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=("I look.",), calls=[WireCall(name="search", arguments=('{"q":null}',))])
    answer = await answer_of(model, request(OPTIONAL, tools=(SEARCH,)))
    assert (answer.text, [call.arguments for call in answer.calls]) == ("I look.", ['{"q":null}'])


@pytest.mark.parametrize("answer", [None, OPTIONAL])
async def test_the_answer_of_a_model_that_refuses_is_its_explanation(
    model: PydanticAIModel, server: WireServer, answer: AnswerSchema | None
) -> None:
    server.answer(refusal=("I will ", "not."))
    *deltas, response = await ask(model, request(answer))
    assert isinstance(response, ModelResponse)
    assert (response.text, response.calls, response.cut) == ("I will not.", (), "refusal")
    assert deltas == [TextDelta("I will not.")]


async def test_a_refusal_of_the_schema_is_said_in_the_providers_words(
    model: PydanticAIModel, server: WireServer
) -> None:
    server.fail(400, "Invalid schema")
    with pytest.raises(ModelRefused, match=r"refused the request \(400\): Invalid schema\."):
        await ask(model, request(COMPOSED))
    assert len(server.requests) == 1


async def test_an_answer_that_breaks_off_starts_again(model: PydanticAIModel, server: WireServer) -> None:
    server.answer(text=('{"calls": [',), ending="dropped")
    server.answer(text=('{"calls": [], "output": null}',))
    events = await ask(model, request(COMPOSED))
    assert [each.number for each in only(events, AttemptStarted)] == [2]
    assert form_of(server.requests[0].body) == form_of(server.requests[1].body)
    server.answer(text=('{"calls": [], "output": null}',))
    assert (await answer_of(model, request(COMPOSED))).text == '{"calls": [], "output": null}'
