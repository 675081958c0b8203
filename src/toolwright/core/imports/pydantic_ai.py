"""Conversations of pydantic-ai: its messages, as JSON or opened as dictionaries."""

from collections.abc import Iterable, Iterator

from toolwright.core.imports.message import (
    Content,
    ImportedCall,
    ImportedMessage,
    ImportedPart,
    joined,
    numbered,
    refuse,
    within_limit,
)
from toolwright.core.json_value import JSON, dumps_unescaped

_NOT_SAID = frozenset(
    {
        *("system-prompt", "instruction", "instruction-baseline", "instruction-delta", "instruction-digest"),
        *("tool-availability-delta", "capability-load-delta", "model-settings-delta", "compaction"),
        *("builtin-tool-call", "builtin-tool-return"),
    }
)
"""Parts of the system, and of tools that a provider executes itself. They are left out."""
_FILES = frozenset({"binary", "image-url", "audio-url", "document-url", "video-url", "uploaded-file"})


def from_pydantic_ai(messages: Iterable[JSON]) -> Iterator[ImportedMessage]:
    """Yield the messages of a conversation. A request can be several: results, then what the user has said."""
    for place, message in numbered(messages):
        match kind := message.text("kind"):
            case "request":
                yield from _request(place, message)
            case "response":
                yield _response(place, message)
            case _:
                refuse(f"{message.path}.kind", f"is {kind!r}, which cannot be imported")


def _request(place: int, message: ImportedPart) -> Iterator[ImportedMessage]:
    for part in message.parts("parts"):
        kind, content = part.text("part_kind"), Content()
        if kind in _NOT_SAID:
            continue
        if kind == "tool-return" or (kind == "retry-prompt" and part.has("tool_name")):
            yield _result(place, part, is_retry=kind == "retry-prompt")
            continue
        match kind:
            case "user-prompt":
                _add(content, part, "content")
            case "retry-prompt" | "retry-feedback":
                content.say(_json_text(part.value.get("content")))
            case "speech":
                content.say(part.optional("transcript"))
            case _:
                refuse(f"{part.path}.part_kind", f"is {kind!r}, which cannot be imported")
        yield ImportedMessage(
            place=place,
            role="user",
            content=within_limit(content.text, f"{part.path}.content"),
            files=tuple(content.files),
            created_at=part.time("timestamp"),
        )


def _result(place: int, part: ImportedPart, *, is_retry: bool) -> ImportedMessage:
    content = Content()
    given = part.value.get("content")
    if _is_file(given) or (isinstance(given, list) and any(map(_is_file, given))):
        _add(content, part, "content")
    else:
        content.say(_json_text(given))
    failed = is_retry or part.value.get("outcome", "success") != "success"
    text = dumps_unescaped({"error": content.text}) if failed else content.text
    return ImportedMessage(
        place=place,
        role="tool",
        call_id=part.id("tool_call_id"),
        content=within_limit(text, f"{part.path}.content"),
        files=tuple(content.files),
        status="error" if failed else "success",
        created_at=part.time("timestamp"),
    )


def _response(place: int, message: ImportedPart) -> ImportedMessage:
    content, calls, reasoning = Content(), list[ImportedCall](), list[str]()
    for part in message.parts("parts"):
        match kind := part.text("part_kind"):
            case "text":
                content.say(part.text("content"))
            case "thinking":
                reasoning.append(part.text("content"))
            case "tool-call":
                call_id, name = part.id("tool_call_id"), part.name("tool_name")
                calls.append(ImportedCall(id=call_id, name=name, arguments=part.arguments("args")))
            case "file":
                _add(content, part, "content")
            case "speech":
                content.say(part.optional("transcript"))
            case _ if kind not in _NOT_SAID:
                refuse(f"{part.path}.part_kind", f"is {kind!r}, which cannot be imported")
            case _:
                pass
    return ImportedMessage(
        place=place,
        role="assistant",
        content=within_limit(content.text, message.path),
        files=tuple(content.files),
        calls=tuple(calls),
        reasoning=joined(reasoning),
        id=message.own_id("provider_response_id"),
        created_at=message.time("timestamp"),
    )


def _is_file(value: JSON) -> bool:
    return isinstance(value, dict) and value.get("kind") in _FILES


def _json_text(value: JSON) -> str:
    return value if isinstance(value, str) else dumps_unescaped(value)


def _add(content: Content, owner: ImportedPart, name: str) -> None:
    """Add the content of a part: a text, a file, or a list of both."""
    given = owner.value.get(name)
    for n, each in enumerate(given if isinstance(given, list) else [given]):
        path = f"{owner.path}.{name}.{n}" if isinstance(given, list) else f"{owner.path}.{name}"
        if not isinstance(each, dict) or "kind" not in each:
            content.say(_json_text(each))
            continue
        part = ImportedPart(each, path)
        match kind := part.text("kind"):
            case "text-content":
                content.say(part.text("content"))
            case "binary":
                mime_type = part.text("media_type")
                content.attach(mime_type.partition("/")[0], mime_type, part.text("data"))
            case "uploaded-file":
                content.mention("file", part.text("file_id"))
            case "cache-point":
                pass
            case _ if kind in _FILES:
                content.mention(kind.removesuffix("-url"), part.text("url"))
            case _:
                refuse(f"{part.path}.kind", f"is {kind!r}, which cannot be imported")
