"""Conversations of Anthropic's Messages API."""

from collections.abc import Iterable, Iterator

from toolwright.core.imports.message import (
    Content,
    ImportedCall,
    ImportedMessage,
    ImportedPart,
    add_part,
    joined,
    numbered,
    read_content,
    refuse,
    within_limit,
)
from toolwright.core.json_value import JSON, dumps_unescaped

_OF_PROVIDER = frozenset(
    {"server_tool_use", "mcp_tool_use", "redacted_thinking", "container_upload", "compaction"}
)
"""Blocks that only Anthropic can read, and calls that it makes itself, with the results `…_tool_result`."""


def from_anthropic(messages: Iterable[JSON]) -> Iterator[ImportedMessage]:
    """Yield the messages of a conversation. Results are messages of their own, before the rest of their message."""
    for place, message in numbered(messages):
        match role := message.text("role"):
            case "system":
                continue
            case "user" | "assistant":
                yield from _messages(place, message, is_answer=role == "assistant")
            case _:
                refuse(f"{message.path}.role", f"is {role!r}, which cannot be imported")


def _messages(place: int, message: ImportedPart, *, is_answer: bool) -> Iterator[ImportedMessage]:
    message.needs("content")
    if message.has("tool_calls", "function_call"):
        refuse(message.path, "has calls in the form of Chat Completions, not of Anthropic")
    content, calls, reasoning, has_results = Content(), list[ImportedCall](), list[str](), False
    is_text = isinstance(message.value.get("content"), str)
    if is_text:
        content = read_content(message, "content")
    for block in () if is_text else message.parts("content"):
        kind = block.text("type")
        if kind == "tool_result" and not is_answer:
            has_results = True
            yield _result(place, block)
        elif kind == "tool_use" and is_answer:
            call_id, name = block.id("id"), block.name("name")
            calls.append(ImportedCall(id=call_id, name=name, arguments=block.arguments("input")))
        elif kind == "thinking" and is_answer:
            reasoning.append(block.text("thinking"))
        elif not (is_answer and (kind in _OF_PROVIDER or kind.endswith("_tool_result"))):
            add_part(content, block)
    text, files = within_limit(content.text, f"{message.path}.content"), tuple(content.files)
    if not is_answer and (text or files or not has_results):
        yield ImportedMessage(place=place, role="user", content=text, files=files, id=message.own_id())
    if is_answer:
        yield ImportedMessage(
            place=place,
            role="assistant",
            content=text,
            files=files,
            calls=tuple(calls),
            reasoning=joined(reasoning),
            id=message.own_id(),
        )


def _result(place: int, block: ImportedPart) -> ImportedMessage:
    content = read_content(block, "content")
    failed = block.value.get("is_error") is True
    text = dumps_unescaped({"error": content.text}) if failed else content.text
    return ImportedMessage(
        place=place,
        role="tool",
        call_id=block.id("tool_use_id"),
        content=text,
        files=tuple(content.files),
        status="error" if failed else "success",
    )
