"""The OpenAI chat completions wire."""

from collections.abc import Iterator

from tests.models.wire_answer import WireAnswer
from toolwright.core.json_value import JSON, JSONObject


def stream(answer: WireAnswer, model: str) -> Iterator[tuple[None, JSON]]:
    """Return the chunks of a streamed answer."""
    for piece in answer.thinking:
        yield _chunk(model, {"reasoning_content": piece})
    for piece in answer.text:
        yield _chunk(model, {"content": piece})
    for piece in answer.refusal:
        yield _chunk(model, {"refusal": piece})
    for index, call in enumerate(answer.calls):
        function: JSONObject = {"name": call.name, "arguments": ""}
        begun: JSON = [{"index": index, "id": call.id, "type": "function", "function": function}]
        yield _chunk(model, {"tool_calls": begun})
        for piece in call.arguments:
            more: JSON = [{"index": index, "function": {"arguments": piece}}]
            yield _chunk(model, {"tool_calls": more})


def ending(answer: WireAnswer, model: str) -> Iterator[tuple[None, JSON]]:
    """Return the chunks that close a stream."""
    yield _chunk(model, {}, _finish(answer))
    _, last = _chunk(model, {})
    assert isinstance(last, dict)
    yield None, {**last, "choices": [], "usage": _usage(answer)}


def whole(answer: WireAnswer, model: str) -> JSONObject:
    """Return the answer without streaming."""
    calls: list[JSON] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.whole}}
        for call in answer.calls
    ]
    message: JSONObject = {"role": "assistant", "content": "".join(answer.text) or None}
    if answer.refusal:
        message["refusal"] = "".join(answer.refusal)
    if calls:
        message["tool_calls"] = calls
    choice: JSONObject = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [choice],
        "usage": _usage(answer),
    }


def error(answer: WireAnswer) -> JSONObject:
    """Return the body of an error."""
    kind = answer.kind or "error"
    return {"error": {"message": answer.error, "type": kind, "code": answer.code, "param": None}}


def failure(answer: WireAnswer, model: str) -> Iterator[tuple[None, JSON]]:
    """Return the chunks of a failed stream."""
    yield None, error(answer)


def _chunk(model: str, delta: JSONObject, finish: str | None = None) -> tuple[None, JSON]:
    choice: JSONObject = {"index": 0, "delta": delta, "finish_reason": finish}
    return None, {
        "id": "chatcmpl_1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
        "choices": [choice],
    }


def _finish(answer: WireAnswer) -> str:
    if answer.stop is not None:
        return "length" if answer.stop == "max_tokens" else answer.stop
    return "tool_calls" if answer.calls else "stop"


def _usage(answer: WireAnswer) -> JSONObject:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.written_tokens,
        },
    }
