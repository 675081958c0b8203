"""The wire server itself, called by the providers' own clients without streaming."""

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import ToolUseBlock
from openai import AsyncOpenAI, InternalServerError
from openai.types.responses import ResponseFunctionToolCall

from tests.models.wire_server import WireCall, WireServer

pytestmark = pytest.mark.anyio
CALL = WireCall(name="search", arguments=('{"q":', '"a"}'), id="call_a")


async def test_chat_completions_answer_whole(server: WireServer) -> None:
    server.answer(text=("Hel", "lo"), calls=[CALL])
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="sk-test") as client:
        answer = await client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": "Hi"}]
        )
    message = answer.choices[0].message
    assert message.content == "Hello"
    assert message.tool_calls is not None
    assert message.tool_calls[0].id == "call_a"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 11


async def test_responses_answer_whole(server: WireServer) -> None:
    server.answer(text=("Hel", "lo"), calls=[CALL])
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="sk-test") as client:
        answer = await client.responses.create(model="gpt-4o", input="Hi")
    assert answer.output_text == "Hello"
    [call] = [item for item in answer.output if isinstance(item, ResponseFunctionToolCall)]
    assert (call.call_id, call.arguments) == ("call_a", '{"q":"a"}')


async def test_messages_answer_whole(server: WireServer) -> None:
    server.answer(thinking=("Hm",), text=("Hello",), calls=[CALL])
    async with AsyncAnthropic(base_url=server.base_url, api_key="sk-test") as client:
        answer = await client.messages.create(
            model="claude-sonnet-5-5", max_tokens=99, messages=[{"role": "user", "content": "Hi"}]
        )
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    call = answer.content[-1]
    assert isinstance(call, ToolUseBlock)
    assert call.input == {"q": "a"}


async def test_a_request_past_the_script_says_so(server: WireServer) -> None:
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k", max_retries=0) as client:
        with pytest.raises(InternalServerError, match="no answer left"):
            await client.responses.create(model="gpt-4o", input="Hi")
    [request] = server.requests
    assert request.headers["authorization"] == "Bearer k"
