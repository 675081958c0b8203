"""An agent's toolkit in loops of the official clients, which accept its definitions and answers unchanged (S4)."""

import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ToolResultBlockParam, ToolUseBlock
from openai import AsyncOpenAI

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.models.wire_server import WireCall, WireServer
from toolwright import testing
from toolwright.core.json_value import JSONObject
from toolwright.core.tools.tool import Tool

pytestmark = pytest.mark.anyio

APP = tw.App(agents=[tw.Agent("michael", tw.Prompt("michael", "Be."), toolkits=["channels", "memory"])])


def script(server: WireServer) -> None:
    server.answer(
        calls=[
            WireCall(id="c1", name="store_memory", arguments=('{"content": ', '"Tea at four"}')),
            WireCall(id="c2", name="search_memory", arguments=('{"query": "tea"}',)),
            WireCall(id="c3", name="update_memory", arguments=('{"label": 1}',)),
        ]
    )
    server.answer(text=["Done."])


@requirement("S4-1-1", "S4-1-3", "S4-3-5")
async def test_a_loop_of_anthropics_client(server: WireServer) -> None:
    script(server)
    async with testing.runtime(APP) as rt, AsyncAnthropic(base_url=server.base_url, api_key="x") as client:
        toolkit = rt.toolkit("michael")
        tools: Any = toolkit.definitions
        messages: list[MessageParam] = [{"role": "user", "content": "Remember: tea at four"}]
        while True:
            async with client.messages.stream(
                model="claude-sonnet-5-5", max_tokens=1_000, messages=messages, tools=tools
            ) as stream:
                answer = await stream.get_final_message()
            messages.append({"role": "assistant", "content": answer.content})
            uses = [block for block in answer.content if isinstance(block, ToolUseBlock)]
            if not uses:
                break
            results: list[ToolResultBlockParam] = []
            for use in uses:
                result: Any = await toolkit.handlers[use.name](use.input)
                results.append(ToolResultBlockParam(type="tool_result", tool_use_id=use.id, **result))
            messages.append({"role": "user", "content": results})
        assert answer.stop_reason == "end_turn"
        sent: Any = server.requests[-1].body
        assert [each["name"] for each in sent["tools"]] == [each["name"] for each in tools]
        stored, found, refused = sent["messages"][-1]["content"]
        passage_id = json.loads(stored["content"][0]["text"])["passageId"]
        [passage] = json.loads(found["content"][0]["text"])["passages"]
        assert (passage["id"], passage["content"]) == (passage_id, "Tea at four")
        assert refused["is_error"] is True and refused["tool_use_id"] == "c3"
        run = await rt.runs.get(toolkit.run_id or "")
        assert (run.status, run.step_count) == ("completed", 3)


async def test_a_loop_of_openais_client(server: WireServer) -> None:
    script(server)
    async with (
        testing.runtime(APP) as rt,
        AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="x") as client,
    ):
        toolkit = rt.toolkit("michael")
        tools: Any = toolkit.definitions_for("openai")
        messages: list[Any] = [{"role": "user", "content": "Remember: tea at four"}]
        while True:
            async with client.chat.completions.stream(
                model="gpt-4o", messages=messages, tools=tools
            ) as stream:
                answer = (await stream.get_final_completion()).choices[0].message
            messages.append(answer.model_dump(include={"role", "content", "tool_calls"}))
            if not answer.tool_calls:
                break
            for use in answer.tool_calls:
                result: Any = await toolkit.handlers[use.function.name](use.function.arguments)
                messages.append({"role": "tool", "tool_call_id": use.id, "content": result["content"]})
        assert answer.content == "Done."
        contents = [each["content"][0]["text"] for each in messages if each["role"] == "tool"]
        assert "Tea at four" in contents[1] and "must be a string" in contents[2]


def echo(state: tw.ThreadState, arguments: JSONObject) -> JSONObject:
    return arguments


async def test_an_odd_tool_of_a_toolkit_works_with_anthropics_client(server: WireServer) -> None:
    odd = Tool(
        name="find_rows",
        description="Find rows.",
        parameters={
            "type": "object",
            "properties": {"filter[name]": {"type": "string"}},
            "anyOf": [{"required": ["filter[name]"]}, {"required": ["id"]}],
        },
        handler=echo,
    )
    app = tw.App(agents=[tw.Agent("clerk", tw.Prompt("clerk", "Find.", tools=[odd]))])
    written = ('{"filter_name": "x"}', '{"filter_name": 1}')
    server.answer(
        calls=[WireCall(id=f"c{n}", name="find_rows", arguments=(w,)) for n, w in enumerate(written)]
    )
    async with testing.runtime(app) as rt, AsyncAnthropic(base_url=server.base_url, api_key="x") as client:
        toolkit = rt.toolkit("clerk")
        tools: Any = toolkit.definitions
        asked: list[MessageParam] = [{"role": "user", "content": "Find x"}]
        async with client.messages.stream(
            model="claude-sonnet-5-5", max_tokens=1_000, messages=asked, tools=tools
        ) as stream:
            answer = await stream.get_final_message()
        uses = [block for block in answer.content if isinstance(block, ToolUseBlock)]
        found, refused = [await toolkit.handlers[use.name](use.input) for use in uses]
    assert json.loads(str(found["content"][0]["text"])) == {"filter[name]": "x"}  # type: ignore[index, call-overload]
    assert "Invalid arguments: filter_name: must be a string" in str(refused["content"])
