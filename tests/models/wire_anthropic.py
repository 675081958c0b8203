"""The Anthropic messages wire."""

import json
from collections.abc import Iterator

from tests.models.wire_answer import WireAnswer, WireCall
from toolwright.core.json_value import JSON, JSONObject

Event = tuple[str, JSON]


def stream(answer: WireAnswer, model: str) -> Iterator[Event]:
    """Return the events of a streamed answer."""
    yield _event("message_start", message=_message(answer, model, [], None))
    for index, (begun, deltas) in enumerate(_blocks(answer)):
        yield _event("content_block_start", index=index, content_block=begun)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)


def ending(answer: WireAnswer, model: str) -> Iterator[Event]:
    """Return the events that close a stream."""
    delta: JSONObject = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    if answer.refusal:
        explanation = "".join(answer.refusal)
        delta["stop_details"] = {"type": "refusal", "explanation": explanation, "category": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": answer.output_tokens})
    yield _event("message_stop")


def whole(answer: WireAnswer, model: str) -> JSONObject:
    """Return the answer without streaming."""
    content: list[JSON] = []
    if answer.thinking:
        thinking = "".join(answer.thinking)
        content.append({"type": "thinking", "thinking": thinking, "signature": answer.signature})
    if answer.text:
        content.append({"type": "text", "text": "".join(answer.text)})
    content += [_tool_use(call, json.loads(call.whole)) for call in answer.calls]
    return _message(answer, model, content, _stop_reason(answer))


def error(answer: WireAnswer) -> JSONObject:
    """Return the body of an error."""
    kinds = {
        401: "authentication_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    kind = answer.kind or kinds.get(
        answer.status, "api_error" if answer.status >= 500 else "invalid_request_error"
    )
    return {"type": "error", "error": {"type": kind, "message": answer.error}}


def failure(answer: WireAnswer, model: str) -> Iterator[Event]:
    """Return the events of a failed stream."""
    yield "error", error(answer)


def _event(kind: str, **fields: JSON) -> Event:
    return kind, {"type": kind, **fields}


def _blocks(answer: WireAnswer) -> Iterator[tuple[JSONObject, list[JSON]]]:
    if answer.thinking:
        deltas: list[JSON] = [{"type": "thinking_delta", "thinking": piece} for piece in answer.thinking]
        signed: JSONObject = {"type": "signature_delta", "signature": answer.signature}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in answer.text]
    for call in answer.calls:
        yield (
            _tool_use(call, {}),
            [{"type": "input_json_delta", "partial_json": piece} for piece in call.arguments],
        )


def _tool_use(call: WireCall, arguments: JSON) -> JSONObject:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _message(answer: WireAnswer, model: str, content: list[JSON], stop_reason: str | None) -> JSONObject:
    usage: JSONObject = {
        "input_tokens": answer.input_tokens - answer.cached_tokens - answer.written_tokens,
        "output_tokens": answer.output_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "cache_creation_input_tokens": answer.written_tokens,
    }
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop_reason(answer: WireAnswer) -> str:
    if answer.refusal:
        return "refusal"
    if answer.stop is not None:
        return "max_tokens" if answer.stop == "max_tokens" else "refusal"
    return "tool_use" if answer.calls else "end_turn"
