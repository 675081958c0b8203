"""The Anthropic messages wire."""

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.models.wire_answer import WireAnswer, WireCall
from tests.models.wire_files import SIGNATURES, decoded, is_readable_pdf, parts_of
from toolwright.core.json_value import JSON, JSONObject

Event = tuple[str, JSON]
MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a request."""
MAX_IMAGE: Final = 5 * 1024 * 1024
"""Bytes of an image in base64."""
_BLOCKS: Final = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "tool_result": ("text", "image", "document", "search_result", "tool_reference"),
}
"""Kinds of content blocks in a user's message and in a tool's result."""


def refused_content(body: Any) -> JSONObject | None:  # the client's JSON
    """Return the error of the first content block that the provider refuses, or None."""
    for number, message in enumerate(body["messages"]):
        if message["role"] == "user":
            why = _refused_blocks(parts_of(message["content"]), f"messages.{number}.content", "user")
            if why is not None:
                return error(WireAnswer(status=400, error=why))
    return None


def _refused_blocks(blocks: Any, where: str, holder: str) -> str | None:
    for index, block in enumerate(blocks):
        why = _refused_block(block, f"{where}.{index}", _BLOCKS[holder])
        if why is not None:
            return why
    return None


def _refused_block(block: Any, at: str, allowed: tuple[str, ...]) -> str | None:
    kind = block["type"]
    if kind not in allowed:
        tags = ", ".join(map(repr, allowed))
        return f"{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
    if kind == "tool_result":
        inner = parts_of(block.get("content"))
        if block.get("is_error") and any(each["type"] != "text" for each in inner):
            return f"{at}.tool_result: all content must be type `text` if `is_error` is true"
        return _refused_blocks(inner, f"{at}.tool_result.content", "tool_result")
    source = block.get("source", {})
    if kind == "image" and source["type"] == "base64":
        return _refused_image(source, f"{at}.image.source.base64")
    if kind == "document" and source["type"] == "base64":
        return _refused_pdf(source, at)
    if kind == "document" and source["type"] == "text" and source["media_type"] != "text/plain":
        return f"{at}.document.source.text.media_type: Input should be 'text/plain'"
    return None


def _refused_image(source: Any, at: str) -> str | None:
    signature = SIGNATURES.get(source["media_type"])
    if signature is None:
        return f"{at}.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
    content, size = decoded(source["data"]), len(source["data"])
    if content is None:
        return f"{at}: invalid base64 data"
    if size > MAX_IMAGE:
        return f"{at}: image exceeds 5 MB maximum: {size} bytes > {MAX_IMAGE} bytes"
    return None if content.startswith(signature) else "Could not process image"


def _refused_pdf(source: Any, at: str) -> str | None:
    if source["media_type"] != "application/pdf":
        return f"{at}.document.source.base64.media_type: Input should be 'application/pdf'"
    content = decoded(source["data"])
    is_valid = content is not None and is_readable_pdf(content)
    return None if is_valid else f"{at}.pdf.source.base64.data: The PDF specified was not valid."


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
