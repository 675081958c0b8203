"""Two consecutive requests begin with the same bytes, and mark where the provider is to cache them."""

import json
from itertools import pairwise
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic_ai.messages import CachePoint, UserPromptPart
from pydantic_ai.messages import ModelRequest as NativeRequest
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

import toolwright as tw
from tests.models.asking import MakeModel, ask, assistant, request, tool, user
from tests.models.wire_server import WireCall, WireServer
from toolwright import testing
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.transcript import STATE, PromptCache
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Usage
from toolwright.core.value import changed

pytestmark = pytest.mark.anyio

SYSTEM = "Be brief."
Body = dict[str, Any]  # a provider's JSON


def stateful(*messages: Message, state: str = "Your memories:\n- tea: at four") -> ModelRequest:
    """Return a request whose system text ends with changing text."""
    return changed(request(*messages), system=f"{SYSTEM}\n\n{state}", stable=len(SYSTEM))


def items(body: Body) -> list[Any]:
    """Return the conversation of any wire format; the blocks of Anthropic's messages one by one, without marks."""
    if "input" in body:
        return body["input"]
    if "system" not in body and "max_tokens" not in body:
        return body["messages"]
    return [
        {"role": message["role"], **{key: each for key, each in block.items() if key != "cache_control"}}
        for message in body["messages"]
        for block in message["content"]
    ]


def head(body: Body) -> Body:
    """Return everything except the conversation."""
    return {key: each for key, each in body.items() if key not in ("messages", "input")}


def text_of(item: Any) -> str:
    """Return the text of a user's message."""
    content = item.get("content", item.get("text"))
    return content if isinstance(content, str) else content[0]["text"] if content else ""


def lasting(body: Body) -> list[Any]:
    """Return the conversation without the changing text at its end."""
    *before, last = items(body)
    return before if text_of(last).startswith(STATE) else [*before, last]


def check_prefix(first: Body, second: Body) -> None:
    """Check that the second request begins with the bytes of the first one, without its changing text."""
    said, more = lasting(first), lasting(second)
    assert json.dumps(head(first)) == json.dumps(head(second))
    assert said and [json.dumps(each) for each in more[: len(said)]] == [json.dumps(each) for each in said]
    assert len(more) > len(said)
    assert not any(STATE in json.dumps(each) for each in more)


async def bodies(model: PydanticAIModel, server: WireServer, *asked: ModelRequest) -> list[Body]:
    """Return the bodies of these requests, each of which gets a short answer."""
    for each in asked:
        server.answer(text=("Yes",))
        await ask(model, each)
    return [each.body for each in server.requests]


@pytest.mark.parametrize("kits", [(), ("mind", "memory"), ("channels", "memory", "mind")], ids=str)
async def test_the_steps_of_a_run_share_their_beginning(
    model: PydanticAIModel, server: WireServer, kits: tuple[str, ...]
) -> None:
    calls = [WireCall(name="look", arguments=('{"what": "sky"}',))]
    if kits:
        calls.append(
            WireCall(name="update_memory", arguments=('{"label": "mood", "content": "glad"}',), id="call_2")
        )

    @tw.tool
    def look(what: str) -> str:
        """Look at something."""
        return f"The {what} is blue."

    agent = tw.Agent("a", tw.Prompt("a", "Be.", model=model, tools=[look]), toolkits=[*kits])
    async with testing.runtime(tw.App(agents=[agent])) as rt:
        server.answer(thinking=("Well",), text=("I look.",), calls=calls)
        server.answer(
            thinking=("Hm",), calls=[WireCall(name="look", arguments=('{"what": "sea"}',), id="call_3")]
        )
        server.answer(text=("Blue.",))
        server.answer(text=("Still.",))
        thread = await rt.threads.create("a")
        for said in ("How is it?", "And now?"):
            run = await rt.runs.wait((await rt.threads.send(thread.id, said)).id, 30)
            assert run.status == "completed"
    sent: list[Any] = [each.body for each in server.requests]
    assert len(sent) == 4
    for first, second in pairwise(sent):
        check_prefix(first, second)
    if kits:
        assert "glad" not in json.dumps(sent[0])
        assert all("Your memory block 'mood':\nglad" in text_of(items(each)[-1]) for each in sent[1:])
        assert "You are a (entityId:" in json.dumps(items(sent[0])[0] | head(sent[0]))


async def test_changing_text_is_sent_last_behind_the_results(
    model: PydanticAIModel, server: WireServer
) -> None:
    called = ModelResponse(calls=(ModelCall(id="c1", name="search", arguments="{}"),))
    asked = stateful(user("Hello"), assistant(called), tool("c1", "found"))
    [body] = await bodies(model, server, asked)
    *before, last = items(body)
    assert text_of(last) == f"{STATE}\n\nYour memories:\n- tea: at four"
    assert last["role"] == "user"
    assert "found" in json.dumps(before[-1])
    assert "tea" not in json.dumps(head(body)) and SYSTEM in json.dumps(before[0] | head(body))


async def test_changing_text_stands_alone_where_nothing_was_said(
    model: PydanticAIModel, server: WireServer
) -> None:
    [body] = await bodies(model, server, changed(stateful(), messages=()))
    assert text_of(items(body)[-1]).startswith(STATE)
    assert "cache_control" not in json.dumps(body.get("messages"))


@pytest.mark.parametrize("stable", [None, len(SYSTEM), 0, 10_000])
async def test_all_of_the_system_text_is_sent_whatever_part_of_it_is_stable(
    model: PydanticAIModel, server: WireServer, stable: int | None
) -> None:
    [body] = await bodies(model, server, changed(request(), system=f"{SYSTEM}\n\nMore.", stable=stable))
    sent = json.dumps(body)
    assert sent.count(SYSTEM) == sent.count("More.") == 1
    assert (STATE in sent) == (stable in (0, len(SYSTEM)))


def marks(body: Body) -> list[str]:
    """Return the positions of the cache marks in a request of Anthropic's."""
    found = ["tools" for each in body.get("tools", []) if "cache_control" in each]
    if isinstance(body.get("system"), list):
        found += ["system" for each in body["system"] if "cache_control" in each]
    blocks = [(message["role"], block) for message in body["messages"] for block in message["content"]]
    return found + [
        f"{n}: {block['type']}" for n, (_, block) in enumerate(blocks) if "cache_control" in block
    ]


async def test_anthropic_is_told_to_cache_tools_system_and_the_last_message(
    make_model: MakeModel, server: WireServer
) -> None:
    model = make_model("anthropic:claude-sonnet-5-5")
    called = ModelResponse(calls=(ModelCall(id="c1", name="search", arguments="{}"),))
    talk = (user("Hello"), assistant(called), tool("c1", "found"))
    first, second, third = await bodies(model, server, stateful(), stateful(*talk), request(*talk))
    assert marks(first) == ["tools", "system", "0: text"]
    assert marks(second) == ["tools", "system", "2: tool_result"]
    assert marks(third) == ["tools", "system", "2: tool_result"]
    assert "cache_control" not in third


async def test_no_mark_is_sent_to_openai_elsewhere(make_model: MakeModel, server: WireServer) -> None:
    for name in ("openai:gpt-4o", "openai-chat:gpt-4o", "openai:gpt-5.6", "openai-chat:gpt-5.6"):
        await bodies(make_model(name), server, stateful(), request())
    assert "cache_control" not in (sent := json.dumps([each.body for each in server.requests]))
    assert "prompt_cache" not in sent


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cache": False}, []),
        ({"anthropic_cache_tool_definitions": False}, []),
        ({"anthropic_cache_instructions": True}, ["system"]),
        ({"anthropic_cache_messages": True}, ["0: text", "1: text"]),
        ({"cache": {"messages": False}}, ["tools", "system"]),
        ({"cache": "1h"}, ["tools", "system", "0: text"]),
    ],
)
async def test_the_settings_of_a_model_object_win(
    server: WireServer, settings: ModelSettings, expected: list[str]
) -> None:
    native = AnthropicModel(
        "claude-sonnet-5-5",
        provider=AnthropicProvider(api_key="x", base_url=server.base_url),
        settings=settings,
    )
    async with native:
        [body] = await bodies(PydanticAIModel(native), server, stateful())
    assert marks(body) == expected


def marked(model: Model) -> bool:
    """Return whether the changing text has a mark before it."""
    [sent] = PromptCache(model).with_state([NativeRequest([UserPromptPart("Hello")])], "State")
    last: Any = sent.parts[-1]
    return not isinstance(last.content, str) and isinstance(last.content[0], CachePoint)


async def test_openai_itself_gets_a_mark_from_the_models_on_that_have_them() -> None:
    async with AsyncOpenAI(api_key="x") as client:
        provider = OpenAIProvider(openai_client=client)
        assert not marked(OpenAIResponsesModel("gpt-4o", provider=provider))
        assert marked(OpenAIResponsesModel("gpt-5.6", provider=provider))
        off = OpenAIResponsesModel("gpt-5.6", provider=provider, settings=ModelSettings(cache=False))
        assert not marked(off)
        assert PromptCache(OpenAIResponsesModel("gpt-5.6", provider=provider)).settings(changing=True) == {}


def test_other_providers_are_told_in_the_terms_of_pydantic_ai() -> None:
    able = PromptCache(TestModel(profile={"supports_cache": True}))
    assert able.settings(changing=True) == {"cache": {"messages": False}}
    assert able.settings(changing=False) == {"cache": True}
    gemini = {"supports_cache": True, "openrouter_supports_trailing_cache_control": False}
    for unable in (TestModel(), TestModel(profile=gemini)):  # type: ignore[arg-type]  # a key of OpenRouter's
        assert PromptCache(unable).settings(changing=False) == {}
        assert not marked(unable)


async def test_cached_tokens_are_counted_and_cost_less(model: PydanticAIModel, server: WireServer) -> None:
    costs: list[float] = []
    for cached in (0, 60_000):
        server.answer(text=("Hi",), input_tokens=100_000, output_tokens=20, cached_tokens=cached)
        response = (await ask(model))[-1]
        assert isinstance(response, ModelResponse) and response.cost is not None
        assert response.usage == Usage(input_tokens=100_000, output_tokens=20, cache_read_tokens=cached)
        costs.append(response.cost)
    assert 0 < costs[1] < costs[0] * 0.8


async def test_what_is_written_to_a_cache_is_counted_and_costs_more(
    make_model: MakeModel, server: WireServer
) -> None:
    model = make_model("anthropic:claude-sonnet-5-5")
    costs: list[float] = []
    for written in (0, 60_000):
        server.answer(text=("Hi",), input_tokens=100_000, output_tokens=20, written_tokens=written)
        response = (await ask(model))[-1]
        assert isinstance(response, ModelResponse) and response.cost is not None
        assert response.usage == Usage(input_tokens=100_000, output_tokens=20, cache_write_tokens=written)
        costs.append(response.cost)
    assert costs[1] > costs[0]
