"""Conversations of OpenAI's APIs: messages of Chat Completions, and items of Responses."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from toolwright.core.imports.message import (
    SYSTEM,
    Content,
    ImportedCall,
    ImportedMessage,
    ImportedPart,
    joined,
    numbered,
    read_content,
    refuse,
)
from toolwright.core.json_value import JSON, dumps_unescaped

HOSTED = frozenset(
    {
        *(
            "web_search_call",
            "file_search_call",
            "computer_call",
            "computer_call_output",
            "image_generation_call",
        ),
        *("code_interpreter_call", "local_shell_call", "local_shell_call_output", "shell_call"),
        *("shell_call_output", "apply_patch_call", "apply_patch_call_output", "mcp_call", "mcp_list_tools"),
        *(
            "mcp_approval_request",
            "mcp_approval_response",
            "tool_search_call",
            "tool_search_output",
            "compaction",
        ),
    }
)
"""Items of tools that OpenAI executes itself. They are left out: the text of the answer says what came of them."""


def from_chat(messages: Iterable[JSON]) -> Iterator[ImportedMessage]:
    """Yield the messages of a conversation of Chat Completions."""
    function = ""  # the id of the last call in the form that was used before tool calls had ids
    for place, message in numbered(messages):
        match role := message.text("role"):
            case _ if role in SYSTEM:
                continue
            case "user":
                message.needs("content")
                content = read_content(message, "content")
                yield _said(place, message, content)
            case "assistant":
                message.needs(
                    "content", "tool_calls", "function_call", "refusal", "audio", "reasoning_content"
                )
                calls = [_chat_call(each) for each in message.parts("tool_calls")]
                if message.has("function_call"):
                    function = f"function-{place}"
                    calls.append(_function_call(function, message.part("function_call")))
                content = read_content(message, "content")
                content.say(message.optional("refusal"))
                yield ImportedMessage(
                    place=place,
                    role="assistant",
                    content=content.text,
                    files=tuple(content.files),
                    calls=tuple(calls),
                    reasoning=message.optional("reasoning_content"),
                    id=message.own_id(),
                )
            case "tool" | "function":
                call_id = message.id("tool_call_id") if role == "tool" else function
                yield _answered(place, message, call_id, "content")
            case _:
                refuse(f"{message.path}.role", f"is {role!r}, which cannot be imported")


def _said(place: int, message: ImportedPart, content: Content) -> ImportedMessage:
    files = tuple(content.files)
    return ImportedMessage(place=place, role="user", content=content.text, files=files, id=message.own_id())


def _answered(place: int, message: ImportedPart, call_id: str, name: str) -> ImportedMessage:
    content = read_content(message, name)
    files = tuple(content.files)
    return ImportedMessage(place=place, role="tool", call_id=call_id, content=content.text, files=files)


def _chat_call(call: ImportedPart) -> ImportedCall:
    if call.optional("type") == "custom":
        custom = call.part("custom")
        return _custom_call(call.id("id"), custom)
    return _function_call(call.id("id"), call.part("function"))


def _function_call(call_id: str, function: ImportedPart) -> ImportedCall:
    return ImportedCall(id=call_id, name=function.name("name"), arguments=function.arguments("arguments"))


def _custom_call(call_id: str, custom: ImportedPart) -> ImportedCall:
    """Return a call whose input is free text, as a call with that text as its one argument."""
    arguments = dumps_unescaped({"input": custom.text("input")})
    return ImportedCall(id=call_id, name=custom.name("name"), arguments=arguments)


@dataclass(slots=True)
class _ResponsesAnswer:
    """An answer of Responses, from its items: all those between two items of others."""

    place: int
    content: Content = field(default_factory=Content)
    calls: list[ImportedCall] = field(default_factory=list[ImportedCall])
    reasoning: list[str] = field(default_factory=list[str])
    id: str | None = None

    def message(self) -> ImportedMessage:
        return ImportedMessage(
            place=self.place,
            role="assistant",
            content=self.content.text,
            files=tuple(self.content.files),
            calls=tuple(self.calls),
            reasoning=joined(self.reasoning),
            id=self.id,
        )


def from_responses(items: Iterable[JSON]) -> Iterator[ImportedMessage]:
    """Yield the messages of a conversation of Responses, given its items."""
    answer: _ResponsesAnswer | None = None
    for place, item in numbered(items):
        kind = item.text("type") if item.has("type") else "message"
        if kind in HOSTED or (kind == "message" and item.value.get("role") in SYSTEM):
            continue
        is_answer = kind in ("reasoning", "function_call", "custom_tool_call") or (
            kind == "message" and item.text("role") == "assistant"
        )
        if is_answer:
            answer = answer or _ResponsesAnswer(place)
            _add_item(answer, item, kind)
            continue
        if answer is not None:
            yield answer.message()
            answer = None
        if kind in ("function_call_output", "custom_tool_call_output"):
            yield _answered(place, item, item.id("call_id"), "output")
        elif kind == "message" and item.text("role") == "user":
            yield _said(place, item, read_content(item, "content"))
        else:
            name, given = ("role", item.text("role")) if kind == "message" else ("type", kind)
            refuse(f"{item.path}.{name}", f"is {given!r}, which cannot be imported")
    if answer is not None:
        yield answer.message()


def _add_item(answer: _ResponsesAnswer, item: ImportedPart, kind: str) -> None:
    match kind:
        case "reasoning":
            answer.reasoning += [each.text("text") for each in item.parts("summary")]
        case "function_call":
            answer.calls.append(_function_call(item.id("call_id"), item))
        case "custom_tool_call":
            answer.calls.append(_custom_call(item.id("call_id"), item))
        case _:
            content = read_content(item, "content")
            answer.content.lines += content.lines
            answer.content.files += content.files
            answer.id = answer.id or item.own_id()
