"""The OpenAI chat completions wire."""

from collections.abc import Iterator
from typing import Any, Final

from tests.models.wire_answer import WireAnswer
from tests.models.wire_files import openai_error, parts_of, refused_file, refused_image
from toolwright.core.json_value import JSON, JSONObject

_PARTS: Final = {"user": ("text", "image_url", "input_audio", "file"), "assistant": ("text", "refusal")}
"""Kinds of content parts by role; the other roles have text only."""


def refused_content(body: Any) -> JSONObject | None:  # the client's JSON
    """Return the error of the first content part that the provider refuses, or None."""
    hears = "audio" in body["model"]
    for number, message in enumerate(body["messages"]):
        where = f"messages[{number}]"
        for index, part in enumerate(parts_of(message.get("content"))):
            error = _refused_kind(part["type"], message["role"], where, index)
            error = error or _refused_part(part, f"{where}.content[{index}]", hears=hears)
            if error is not None:
                return error
    return None


def _refused_kind(kind: str, role: str, where: str, index: int) -> JSONObject | None:
    supported = _PARTS.get(role, ("text",))
    if kind in supported:
        return None
    if kind == "image_url":
        message = (
            f"Invalid '{where}'. Image URLs are only allowed for messages with role 'user', but this message"
        )
        return openai_error(f"{message} with role '{role}' contains an image URL.", where)
    values = ", ".join(map(repr, supported))
    return openai_error(
        f"Invalid value: '{kind}'. Supported values are: {values}.", f"{where}.content[{index}]"
    )


def _refused_part(part: Any, at: str, *, hears: bool) -> JSONObject | None:
    """Return the error of a part of a user's message, or None. Models with audio input take no images and no files."""
    match part["type"]:
        case "image_url" | "file" if hears:
            return openai_error(f"This model does not support {part['type']} content.", at)
        case "image_url":
            return refused_image(part["image_url"]["url"], f"{at}.image_url.url")
        case "input_audio" if not hears:
            return openai_error("content blocks are expected to be either text or image_url type", at)
        case "input_audio" if part["input_audio"]["format"] not in ("wav", "mp3"):
            message = (
                f"Invalid value: '{part['input_audio']['format']}'. Supported values are: 'wav' and 'mp3'."
            )
            return openai_error(message, f"{at}.input_audio.format")
        case "file" if "file_id" not in part["file"]:
            file, param = part["file"], f"{at}.file.file_id"
            if not (file.get("file_data") and file.get("filename")):
                message = f"Missing required parameter: '{param}'."
                return openai_error(message, param, "missing_required_parameter")
            pdf = "application/pdf"
            return refused_file(file["file_data"], f"{at}.file.file_data", f"an {pdf}", pdf, pdf)
        case _:
            return None


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
