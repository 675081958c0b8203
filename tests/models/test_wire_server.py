"""The wire server itself, called by the providers' own clients without streaming."""

import json
from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic
from anthropic.types import ToolUseBlock
from openai import AsyncOpenAI, BadRequestError, InternalServerError
from openai.types.responses import ResponseFunctionToolCall

from tests.models.wire_server import WireCall, WireRequest, WireServer, refused_content

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


# ── files that providers refuse ─────────────────────────────────────────────────────────────────────────────────


async def test_openai_refuses_a_file_with_its_place(server: WireServer) -> None:
    async with AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="k", max_retries=0) as client:
        with pytest.raises(BadRequestError, match="unsupported MIME type 'text/markdown'") as raised:
            await client.chat.completions.create(
                model="gpt-4o",
                messages=[{"role": "user", "content": [{"type": "file", "file": named("text/markdown")}]}],
            )
    assert (raised.value.param, raised.value.code) == (
        "messages[0].content[0].file.file_data",
        "invalid_value",
    )


async def test_anthropic_refuses_a_request_of_more_than_32_mib(server: WireServer) -> None:
    async with AsyncAnthropic(base_url=server.base_url, api_key="k", max_retries=0) as client:
        with pytest.raises(APIStatusError, match="request_too_large") as raised:
            await client.messages.create(
                model="m", max_tokens=99, messages=[{"role": "user", "content": "x" * 32 * 1024 * 1024}]
            )
    assert raised.value.status_code == 413


def named(mime_type: str, data: str = "JVBERi0x") -> Any:
    return {"filename": "a.pdf", "file_data": f"data:{mime_type};base64,{data}"}


def chat(part: Any, role: str = "user", model: str = "gpt-4o") -> WireRequest:
    body: Any = {"model": model, "messages": [{"role": role, "content": [part]}]}
    return WireRequest("/v1/chat/completions", {}, body)


def responses(part: Any) -> WireRequest:
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": [part]}
    return WireRequest("/v1/responses", {}, {"model": "gpt-4o", "input": [output]})


def anthropic(kind: str, media_type: str, data: str, source: str = "base64", **result: Any) -> WireRequest:
    block: Any = {"type": kind, "source": {"type": source, "media_type": media_type, "data": data}}
    if result:
        block = {"type": "tool_result", "tool_use_id": "c1", "content": [block], **result}
    return WireRequest("/v1/messages", {}, {"messages": [{"role": "user", "content": [block]}]})


AUDIO: Any = {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}
IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
FILE: Any = {"type": "file", "file": named("application/pdf")}
HEARING = "gpt-4o-audio-preview"
PDF, PNG = "application/pdf", "image/png"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (chat(FILE), ""),
        (chat({**FILE, "file": {"file_id": "file-1"}}), ""),
        (chat({**FILE, "file": {"file_data": FILE["file"]["file_data"]}}), "Missing required parameter"),
        (chat({**FILE, "file": named(PDF, "no!")}), "invalid base64-encoded value"),
        (chat({**FILE, "file": named(PDF, "TVo=")}), "could not be read"),
        (chat(FILE, "tool"), "Invalid value: 'file'. Supported values are: 'text'."),
        (chat(FILE, model=HEARING), "does not support file content"),
        (chat(IMAGE), ""),
        (chat(IMAGE, "tool"), "this message with role 'tool' contains an image URL"),
        (chat(IMAGE, model=HEARING), "does not support image_url content"),
        (chat({**IMAGE, "image_url": {"url": "data:image/png;base64,TVo="}}), "unsupported image"),
        (chat({**IMAGE, "image_url": {"url": FILE["file"]["file_data"]}}), "MIME type 'application/pdf'"),
        (chat(AUDIO, model=HEARING), ""),
        (chat(AUDIO), "either text or image_url"),
        (chat({**AUDIO, "input_audio": {"data": "T2dn", "format": "ogg"}}, model=HEARING), "'wav' and 'mp3'"),
        (responses({"type": "input_file", **named(PDF)}), ""),
        (responses({"type": "input_file", **named("text/plain")}), ""),
        (responses({"type": "input_file", "file_data": "x"}), "'input[0].output[0].filename'"),
        (responses({"type": "input_file", **named(PDF, "TVo=")}), "'input[0].output[0].file_data'"),
        (responses({"type": "input_image", "image_url": IMAGE["image_url"]["url"]}), ""),
        (responses(AUDIO), "Invalid value: 'input_audio'"),
        (anthropic("document", PDF, "JVBERi0x"), ""),
        (anthropic("document", PDF, "JVBERi0x", is_error=False), ""),
        (anthropic("document", PDF, "JVBERi0x", is_error=True), "must be type `text` if `is_error` is true"),
        (anthropic("document", PDF, "TVo="), "messages.0.content.0.pdf.source.base64.data: The PDF"),
        (anthropic("document", "text/plain", "TVo="), "Input should be 'application/pdf'"),
        (anthropic("document", "text/plain", "Hi", "text"), ""),
        (anthropic("document", "text/markdown", "Hi", "text"), "Input should be 'text/plain'"),
        (anthropic("image", PNG, "iVBORw=="), ""),
        (anthropic("image", "image/svg+xml", "iVBORw=="), "'image/gif' or 'image/webp'"),
        (
            anthropic("image", PNG, "no!", is_error=False),
            "tool_result.content.0.image.source.base64: invalid",
        ),
        (anthropic("image", PNG, "A" * 5_242_884), "image exceeds 5 MB maximum"),
        (anthropic("audio", "audio/mpeg", "SUQz"), "Input tag 'audio'"),
    ],
)
def test_a_content_part_is_refused_as_by_its_provider(request_: WireRequest, words: str) -> None:
    error = refused_content(request_)
    assert (error is None) if not words else (words in json.dumps(error)), error
