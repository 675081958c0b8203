"""Requests that are too long for the model: the error of each provider, and errors that mean something different."""

from typing import Any, TypeAlias

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelContextWindowExceededError, ModelHTTPError

from tests.models.asking import MakeModel, answer_of, ask
from tests.models.conftest import Pauses
from tests.models.wire_server import WireServer
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.adapters.models.providers.provider import TOO_LONG, translate
from toolwright.adapters.models.scripted import FunctionModel, ScriptedModel
from toolwright.core.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable

pytestmark = pytest.mark.anyio

Row: TypeAlias = tuple[str, int, object, int | None, int | None]

CHAT = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130532 tokens."
)
RESPONSES = "Your input exceeds the context window of this model. Please adjust your input and try again."
LONG_CODE = "context_length_exceeded"


def said(message: str, **fields: Any) -> dict[str, Any]:
    """Return an error as most providers send it."""
    return {"error": {"message": message, **fields}}


ROWS: tuple[Row, ...] = (
    ("OpenAI chat", 400, said(CHAT, code=LONG_CODE), 128_000, 130_532),
    ("OpenAI with tools", 400, said(
        "This model's maximum context length is 16385 tokens. However, you requested 20105 tokens (16009 in the "
        "messages, 4096 in the completion). Please reduce the length of the messages or completion."), 16_385, 20_105),
    ("OpenAI Responses", 400, said(RESPONSES, code=LONG_CODE), None, None),
    ("OpenAI, by its words alone", 400, said(RESPONSES), None, None),
    ("OpenAI, by its code alone", 400, said("No.", code=LONG_CODE), None, None),
    ("OpenAI, a limit of its own", 400, said(
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300012 tokens. Please "
        "reduce the length of the messages."), 272_000, 300_012),
    ("OpenRouter", 400, said(
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of "
        "text input). Please reduce the length of either one."), 32_768, 42_832),
    ("OpenRouter, in the words of another provider", 400, said("Provider returned error", code=400, metadata={
        "provider_name": "Anthropic", "raw": '{"error":{"message":"prompt is too long: 21 tokens > 20 maximum"}}'}),
        20, 21),
    ("vLLM", 400, {"object": "error", "message":
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.",
        "type": "BadRequestError", "code": 400}, 4_096, 5_000),
    ("vLLM, its engine", 400, said(
        "The decoder prompt (length 8357) is longer than the maximum model length of 8192. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens."), 8_192, 8_357),
    ("vLLM, without numbers", 400, said("The prompt does not fit the maximum model length."), None, None),
    ("SGLang", 400, {"message":
        "The input (9000 tokens) is longer than the model's context length (8192 tokens)."}, 8_192, 9_000),
    ("a gateway", 400, said("The maximum context length of the model was exceeded."), None, None),
    ("another gateway", 400, said("maximum context length of 8192 tokens exceeded"), 8_192, None),
    ("Anthropic", 400, said(
        "prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"), 200_000, 210_000),
    ("Anthropic with its answer", 400, said(
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or "
        "`max_tokens` and try again", type="invalid_request_error"), 200_000, 207_192),
    ("Anthropic, without numbers", 400, said("Prompt is too long"), None, None),
    ("Anthropic's limit, without numbers", 400, said("input length and `max_tokens` exceed context limit"), None, None),
    ("Anthropic, in bytes", 413, said(
        "Request exceeds the maximum size", type="request_too_large"), None, None),
    ("Google", 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}},
        1_048_576, 1_200_000),
    ("Google, in a list", 400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}}],
        1_048_576, 1_200_000),
    ("Google, with files", 400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message":
        "The input token count exceeds the maximum number of tokens allowed 1048576."}}, None, None),
    ("Bedrock", 400, {"Error": {"Code": "ValidationException", "Message":
        "Input is too long for requested model."}}, None, None),
    ("Bedrock, in bytes", 400, {"Error": {"Code": "ValidationException", "Message":
        "The model returned the following errors: too many total text bytes: 21000000 > 20000000"}}, None, None),
    ("Bedrock, other models", 400, {"message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length."},
        None, None),
    ("Mistral", 400, '{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for '
        'model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}', 32_768, 40_000),
    ("Groq", 400, said("Please reduce the length of the messages or completion.", code=LONG_CODE), None, None),
    ("Groq, without a code", 400, said("Please reduce the length of the messages or completion."), None, None),
    ("xAI", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072, 537_812),
    ("Cohere", 400, {"message": "too many tokens: size limit exceeded by 1024 tokens."}, None, None),
    ("Moonshot", 400, said("Your request exceeded model token limit: 262144 (requested: 300000)"), 262_144, 300_000),
    ("Moonshot, without numbers", 400, said("Your request exceeded model token limit"), None, None),
    ("llama.cpp", 400, {"error": {"code": 400, "message":
        "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error",
        "n_prompt_tokens": 5_000, "n_ctx": 4_096}}, 4_096, 5_000),
    ("llama.cpp, in words", 400, said(
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it"), 4_096, 5_000),
    ("llama.cpp, of old", 500, said("the request exceeds the available context size"), None, None),
    ("llama.cpp, by its type", 500, said("No.", type="exceed_context_size_error"), None, None),
    ("Ollama", 400, said("prompt too long; exceeded max context length by 4096 tokens"), None, None),
    ("Ollama, embedding", 400, said("the input length exceeds the context length"), None, None),
    ("LM Studio", 400, said(
        "The number of tokens to keep from the initial prompt is greater than the context length."), None, None),
    ("OpenAI, more than may be sent in a minute", 429, said(
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000. The input or output "
        "tokens must be reduced in order to run successfully.", code="rate_limit_exceeded"), 30_000, 45_000),
    ("Groq, more than may be sent in a minute", 413, said(
        "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9000",
        code="rate_limit_exceeded"), 6_000, 9_000),
    ("MiniMax", 400, said("invalid params, context window exceeds limit (2013)"), None, None),
    ("Zhipu", 400, said("Prompt exceeds max length", code="1261"), None, None),
    ("another's words", 422, {"detail": "The conversation is too long for this deployment."}, None, None),
    ("yet another's", 400, said("You sent more than 8192 input tokens."), None, None),
    ("a proxy", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>", None, None),
    ("a proxy that says nothing", 413, None, None, None),
)  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_request_that_is_too_long_is_said_to_be_so(row: Row) -> None:
    _, status, body, limit, asked = row
    fault = translate("some:model", ModelHTTPError(status, "model", body))
    assert isinstance(fault, ContextTooLong) and isinstance(fault, ModelRefused)
    assert (fault.limit, fault.asked) == (limit, asked)
    assert fault.code == "context_too_long"
    assert fault.message.startswith(f"The request is too long for some:model ({status}): ")


@pytest.mark.parametrize(
    ("words", "limit", "asked"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 8300 tokens (4204 in the "
            "messages, 4096 in the completion).",
            8_192,
            8_300,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 8300 tokens (4204 in the text "
            "input, 4096 in the output).",
            8_192,
            8_300,
        ),
        (
            "input length and `max_tokens` exceed context limit: 4204 + 4096 > 8192, decrease them.",
            8_192,
            8_300,
        ),
    ],
)
def test_the_room_for_the_answer_is_a_part_of_what_a_provider_counts(
    words: str, limit: int, asked: int
) -> None:
    fault = translate("some:model", ModelHTTPError(400, "model", said(words)))
    assert isinstance(fault, ContextTooLong)
    assert (fault.limit, fault.asked, fault.answer) == (limit, asked, 4_096)


@pytest.mark.parametrize("number", ["128k", "128K", "200 000", "131.072", "1M"])
def test_a_number_that_goes_on_is_not_read_by_its_beginning(number: str) -> None:
    words = f"maximum context length is {number} tokens"
    fault = translate("some:model", ModelHTTPError(400, "model", said(words)))
    assert isinstance(fault, ContextTooLong) and (fault.limit, fault.asked) == (None, None)


@pytest.mark.parametrize("pattern", TOO_LONG, ids=lambda pattern: pattern.pattern)
def test_each_pattern_is_there_for_a_provider(pattern: Any) -> None:
    first = [next((each for each in TOO_LONG if each.search(str(body))), None) for _, _, body, _, _ in ROWS]
    assert pattern in first


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            ModelHTTPError(429, "m", said(
                "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4500.",
                code="rate_limit_exceeded")),
            ModelUnavailable,
        ),
        (
            ModelHTTPError(400, "m", said(
                "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes")),
            ModelRefused,
        ),
        (ModelHTTPError(400, "m", said("This request has too many tools: 200 (at most 128).")), ModelRefused),
        (ModelHTTPError(403, "m", said("Your request exceeds the plan of this account.")), ModelRefused),
        (ModelHTTPError(429, "m", said("Too many tokens, please wait before trying again.")), ModelUnavailable),
        (ModelHTTPError(400, "m", said("max_tokens is too large: 32000.")), ModelRefused),
        (ModelHTTPError(400, "m", said("Invalid schema for function 'search'")), ModelRefused),
        (ModelHTTPError(422, "m", {"detail": [{"msg": "Extra inputs", "input": "prompt is too long"}]}), ModelRefused),
        (ModelHTTPError(401, "m", said("prompt is too long")), ModelRefused),
        (ModelHTTPError(500, "m", said("upstream died")), ModelUnavailable),
        (ModelAPIError("m", "Connection error."), ModelUnavailable),
    ],
)  # fmt: skip
def test_another_error_is_not_taken_for_it(error: Exception, kind: type[ModelError]) -> None:
    fault = translate("some:model", error)
    assert isinstance(fault, kind) and not isinstance(fault, ContextTooLong)


def test_what_pydantic_ai_takes_for_it_is_it() -> None:
    fault = translate("some:model", ModelContextWindowExceededError("m", "Too much."))
    assert isinstance(fault, ContextTooLong)
    assert (fault.limit, fault.asked) == (None, None)
    assert fault.message == "The request is too long for some:model: Too much."


async def test_over_every_wire_it_is_said_at_once(
    model: PydanticAIModel, server: WireServer, pauses: Pauses
) -> None:
    message = "prompt is too long: 210000 tokens > 200000 maximum" if "anthropic" in model.name else CHAT
    server.fail(400, message, code=LONG_CODE)
    with pytest.raises(ContextTooLong) as caught:
        await ask(model)
    assert (caught.value.limit, caught.value.asked) in [(200_000, 210_000), (128_000, 130_532)]
    assert caught.value.message == f"The request is too long for {model.name} (400): {message.rstrip('.')}."
    assert (len(server.requests), pauses.seconds) == (1, [])


async def test_a_body_that_is_too_large_is_it_too(model: PydanticAIModel, server: WireServer) -> None:
    server.fail(413, "Request exceeds the maximum size")
    with pytest.raises(ContextTooLong):
        await ask(model)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "message", "code"),
    [
        ("openai:gpt-4o", RESPONSES, LONG_CODE),
        ("openai-chat:gpt-4o", CHAT, LONG_CODE),
        ("openai-chat:gpt-4o", "the request exceeds the available context size", None),
        ("anthropic:claude-sonnet-5-5", "prompt is too long: 210000 tokens > 200000 maximum", None),
    ],
)
async def test_a_stream_that_has_begun_says_it(
    make_model: MakeModel, server: WireServer, name: str, message: str, code: str | None
) -> None:
    kind = None if "anthropic" not in name else "invalid_request_error"
    server.answer(ending="failed", error=message, code=code, kind=kind)
    with pytest.raises(ContextTooLong):
        await ask(make_model(name))
    assert len(server.requests) == 1


async def test_a_rate_limit_is_tried_again(model: PydanticAIModel, server: WireServer) -> None:
    server.fail(429, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 4500")
    server.answer(text=("Hi",))
    assert (await answer_of(model)).text == "Hi"


async def test_a_script_and_a_function_say_it_as_a_turn() -> None:
    turn = {"fail": "too_long", "message": "Too much."}
    for model in (ScriptedModel([turn]), FunctionModel(lambda _: turn)):
        with pytest.raises(ContextTooLong, match="Too much"):
            await ask(model)
