"""The OpenAI Responses wire."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.models.wire_answer import WireAnswer, WireCall
from tests.models.wire_files import openai_error, parts_of, refused_file, refused_image
from toolwright.core.json_value import JSON, JSONObject

Event = tuple[str, JSON]


def refused_content(body: Any) -> JSONObject | None:  # the client's JSON
    """Return the error of the first part of a message or of a call's output that the provider refuses, or None."""
    for number, item in enumerate(parts_of(body["input"])):
        field = "output" if item.get("type") == "function_call_output" else "content"
        parts = item.get(field) if field == "output" or "role" in item else None
        for index, part in enumerate(parts_of(parts)):
            error = _refused_part(part, item.get("role"), f"input[{number}].{field}[{index}]")
            if error is not None:
                return error
    return None


def _refused_part(part: Any, role: str | None, at: str) -> JSONObject | None:
    kind = part["type"]
    is_answer = role == "assistant"
    supported = ("output_text", "refusal") if is_answer else ("input_text", "input_image", "input_file")
    if kind not in supported:
        values = ", ".join(map(repr, supported))
        return openai_error(f"Invalid value: '{kind}'. Supported values are: {values}.", at)
    if kind == "input_image" and part.get("image_url"):
        return refused_image(part["image_url"], f"{at}.image_url")
    if kind == "input_file" and part.get("file_data"):
        if not part.get("filename"):
            message = f"Missing required parameter: '{at}.filename'."
            return openai_error(message, f"{at}.filename", "missing_required_parameter")
        return refused_file(part["file_data"], f"{at}.file_data", "a valid file", None, "text/plain")
    return None


def stream(answer: WireAnswer, model: str) -> Iterator[Event]:
    """Return the events of a streamed answer."""
    return _numbered(_events(answer, model))


def ending(answer: WireAnswer, model: str) -> Iterator[Event]:
    """Return the events that close a stream."""
    response = whole(answer, model)
    if answer.stop is not None:
        reason = "max_output_tokens" if answer.stop == "max_tokens" else answer.stop
        response |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    yield _event(f"response.{response['status']}", sequence_number=10_000, response=response)


def whole(answer: WireAnswer, model: str) -> JSONObject:
    """Return the answer without streaming."""
    return _response(answer, model, "completed", [item for item, _ in _items(answer)])


def error(answer: WireAnswer) -> JSONObject:
    """Return the body of an error."""
    kind = answer.kind or "error"
    return {"error": {"message": answer.error, "type": kind, "code": answer.code, "param": None}}


def failure(answer: WireAnswer, model: str) -> Iterator[Event]:
    """Return the events of a failed stream."""
    response = _response(answer, model, "failed", [])
    response["error"] = {"code": answer.code, "message": answer.error}
    yield _event("response.failed", sequence_number=10_000, response=response)


def _events(answer: WireAnswer, model: str) -> Iterator[Event]:
    yield _event("response.created", response=_response(answer, model, "in_progress", []))
    for place, (item, deltas) in enumerate(_items(answer)):
        yield _event("response.output_item.added", output_index=place, item=_begun(item))
        for kind, fields in deltas:
            yield _event(kind, output_index=place, item_id=item["id"], **fields)
        yield _event("response.output_item.done", output_index=place, item=item)


def _numbered(events: Iterable[Event]) -> Iterator[Event]:
    for number, (kind, event) in enumerate(events):
        assert isinstance(event, dict)
        yield kind, {**event, "sequence_number": number}


def _event(kind: str, **fields: JSON) -> Event:
    return kind, {"type": kind, **fields}


def _items(answer: WireAnswer) -> Iterator[tuple[JSONObject, list[tuple[str, JSONObject]]]]:
    """Return each item of the output with its deltas."""
    if answer.thinking:
        yield (
            _reasoning(answer),
            [
                ("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": piece})
                for piece in answer.thinking
            ],
        )
    if answer.text:
        yield (
            _message(answer),
            [
                ("response.output_text.delta", {"content_index": 0, "delta": piece, "logprobs": []})
                for piece in answer.text
            ],
        )
    if answer.refusal:
        whole = "".join(answer.refusal)
        yield (
            _of_assistant({"type": "refusal", "refusal": whole}),
            [
                *(
                    ("response.refusal.delta", {"content_index": 0, **_delta(piece)})
                    for piece in answer.refusal
                ),
                ("response.refusal.done", {"content_index": 0, "refusal": whole}),
            ],
        )
    for call in answer.calls:
        yield (
            _function_call(call),
            [
                *(("response.function_call_arguments.delta", _delta(piece)) for piece in call.arguments),
                ("response.function_call_arguments.done", {"name": call.name, "arguments": call.whole}),
            ],
        )


def _delta(piece: str) -> JSONObject:
    return {"delta": piece}


def _begun(item: JSONObject) -> JSONObject:
    """Return the item as first announced, without the parts that follow."""
    empty: JSONObject = {"content": [], "arguments": "", "summary": [], "encrypted_content": None}
    return {**item, **{key: value for key, value in empty.items() if key in item}, "status": "in_progress"}


def _reasoning(answer: WireAnswer) -> JSONObject:
    summary: JSON = [{"type": "summary_text", "text": "".join(answer.thinking)}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": answer.signature}


def _message(answer: WireAnswer) -> JSONObject:
    text = "".join(answer.text)
    return _of_assistant({"type": "output_text", "text": text, "annotations": [], "logprobs": []})


def _of_assistant(content: JSON) -> JSONObject:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }


def _function_call(call: WireCall) -> JSONObject:
    return {
        "type": "function_call",
        "id": f"fc_{call.id}",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.whole,
        "status": "completed",
    }


def _response(answer: WireAnswer, model: str, status: str, output: Iterable[JSON]) -> JSONObject:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": model,
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(answer) if status == "completed" else None,
    }


def _usage(answer: WireAnswer) -> JSONObject:
    return {
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "input_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.written_tokens,
        },
        "output_tokens_details": {"reasoning_tokens": 0},
    }
