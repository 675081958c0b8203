"""Import of a conversation: recognize its form, read its messages, and pair its calls with their results.

The result is a conversation that every provider accepts: each call is followed by its result, in the order of the
calls. Messages between a call and its result follow the result. A call without a result gets an error as its result.
"""

from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Literal, TypeAlias, cast, get_args

from pydantic import BaseModel

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.imports import own
from toolwright.core.imports.anthropic import from_anthropic
from toolwright.core.imports.message import (
    MAX_IMPORTED,
    MAX_IMPORTED_TEXT,
    ImportedMessage,
    numbered,
    refuse,
)
from toolwright.core.imports.openai import HOSTED, from_chat, from_responses
from toolwright.core.imports.pydantic_ai import from_pydantic_ai
from toolwright.core.json_value import JSON, characters, dumps_unescaped, plain
from toolwright.core.text import clean_text, quantity, sentence
from toolwright.core.threads.message import MAX_REASONING
from toolwright.core.value import changed

ConversationForm: TypeAlias = Literal["toolwright", "openai", "openai-responses", "anthropic", "pydantic-ai"]
"""Form of an imported conversation: ours, OpenAI Chat Completions or Responses, Anthropic Messages, pydantic-ai."""
FORMS: tuple[ConversationForm, ...] = get_args(ConversationForm)

NO_RESULT = "The imported conversation has no result of this call."

_READERS: Mapping[ConversationForm, Callable[[Iterable[JSON]], Iterator[ImportedMessage]]] = {
    "toolwright": own.from_own,
    "openai": from_chat,
    "openai-responses": from_responses,
    "anthropic": from_anthropic,
    "pydantic-ai": from_pydantic_ai,
}
_ITEMS = HOSTED | {
    *("reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
}
_CONTENT: Mapping[str, ConversationForm] = {
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), "openai-responses"),
    **dict.fromkeys(("image_url", "input_audio", "file"), "openai"),
    **dict.fromkeys(("tool_use", "tool_result", "thinking", "image", "document"), "anthropic"),
    **dict.fromkeys(("redacted_thinking", "server_tool_use", "search_result"), "anthropic"),
}
"""Types of the parts of a content that only one of the APIs has."""
_CHAT = frozenset({"tool_calls", "tool_call_id", "function_call"})


def read_conversation(messages: object, form: str | None = None) -> list[ImportedMessage]:
    """Return the messages of a conversation, in the order in which they are stored.

    They are dictionaries, values of `toolwright`, or objects of pydantic-ai or of a provider's SDK. Without a `form` it
    is recognized. Raises `InvalidRequest`, with the index of the message, for a conversation that cannot be imported.
    """
    if form is not None and form not in FORMS:
        given = brief_value(form)
        refuse("format", f"must be {', '.join(map(repr, FORMS[:-1]))} or {FORMS[-1]!r}, not {given}")
    chosen = recognized(opened(messages)) if form is None else form
    paired = _paired(_READERS[chosen](opened(messages)))
    _check_count(len(paired))
    return paired


def opened(messages: object) -> Iterator[JSON]:
    """Yield the messages of a conversation as JSON, one at a time: a long one must not be in memory twice.

    Raises `InvalidRequest` for anything but a list, and for a conversation that is too long.
    """
    if not isinstance(messages, list | tuple):
        refuse("messages", f"must be a list of messages, not {brief_value(messages)}")
    given = cast("Sequence[object]", messages)  # isinstance does not check the items
    _check_count(len(given))
    size = 0
    for place, each in enumerate(given):
        message = _opened(each, place)
        size += characters(message)
        if size > MAX_IMPORTED_TEXT:
            refuse("messages", f"must have at most {MAX_IMPORTED_TEXT} characters together")
        yield message


def _check_count(count: int) -> None:
    if count > MAX_IMPORTED:
        limit = quantity(MAX_IMPORTED, "message")
        refuse("messages", f"must be at most {limit} with the results of all calls, not {count}")


def _opened(message: object, place: int) -> JSON:
    """Return a message as JSON."""
    if isinstance(message, dict):
        with suppress(InvalidJSON):  # such as bytes
            return plain(cast("object", message))
    try:
        return plain(_open(cast("object", message), 0))
    except InvalidJSON as error:
        raise InvalidRequest(
            f"messages.{place} must be JSON: {sentence(error.message)}",
            [{"path": f"messages.{place}", "message": sentence(error.message)}],
        ) from error


def _open(value: object, depth: int) -> object:
    """Return the value with its objects as dictionaries and its bytes as base64. `plain` refuses what is too deep."""
    if isinstance(value, str | int | float | None) or depth > 64:
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)  # isinstance does not check the items
        return {name: _open(each, depth + 1) for name, each in items.items()}
    if isinstance(value, list | tuple):
        return [_open(each, depth + 1) for each in cast("Iterable[object]", value)]  # as above
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _open(getattr(value, each.name), depth + 1) for each in fields(value)}
    return value


def recognized(messages: Iterable[JSON]) -> ConversationForm:
    """Return the form of a conversation, by the fields that only this form has. Raises if it has those of several.

    Texts without calls and files are the same in our form, OpenAI's Chat Completions and Anthropic's API.
    """
    forms, are_texts = dict[ConversationForm, int](), True
    for place, message in numbered(messages):
        form = _form_of(message.value)
        if form is not None:
            forms.setdefault(form, place)
        are_texts = are_texts and isinstance(message.value.get("content"), str)
    if len(forms) > 1:
        found = " and ".join([f"messages.{place} that of {form}" for form, place in forms.items()])
        refuse("messages", f"must have one form, but {found}: name it with format")
    for form in forms:
        return form
    return "toolwright" if are_texts else "openai"


def _form_of(message: Mapping[str, JSON]) -> ConversationForm | None:
    """Return the form that a message can only have, or None."""
    if "parts" in message and message.get("kind") in ("request", "response"):
        return "pydantic-ai"
    if message.get("type") in _ITEMS:
        return "openai-responses"
    if not own.MARKS.isdisjoint(message):
        return "toolwright"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _CONTENT:
            return _CONTENT[kind]
    if message.get("role") in ("tool", "function") or not _CHAT.isdisjoint(message):
        return "openai"
    if "stop_reason" in message:
        return "anthropic"
    return "openai-responses" if message.get("type") == "message" else None


@dataclass(slots=True)
class _Group:
    """A message with the results of its calls, which can be in other places of the source."""

    message: ImportedMessage
    results: list[ImportedMessage | None] = field(default_factory=list[ImportedMessage | None])

    def in_order(self) -> Iterator[ImportedMessage]:
        yield self.message
        for call, result in zip(self.message.calls, self.results, strict=True):
            if result is not None:
                yield changed(result, tool_name=call.name)
                continue
            yield ImportedMessage(
                place=self.message.place,
                role="tool",
                content=dumps_unescaped({"error": NO_RESULT}),
                call_id=call.id,
                tool_name=call.name,
                status="error",
                created_at=self.message.created_at,
            )


def _paired(messages: Iterable[ImportedMessage]) -> list[ImportedMessage]:
    """Return the messages with the result of each call after it. Raises for a result without a call."""
    groups = list[_Group]()
    waiting = dict[str | None, deque[tuple[_Group, int]]]()  # calls without a result, by the source's id
    for message in messages:
        if message.role != "tool":
            group = _Group(message, [None] * len(message.calls))
            groups.append(group)
            for position, call in enumerate(message.calls):
                waiting.setdefault(call.id, deque()).append((group, position))
            continue
        calls = waiting.get(message.call_id)
        if not calls:
            fault = "has a result already" if calls is not None else "no earlier message makes"
            refuse(
                f"messages.{message.place}",
                f"answers the call {brief_value(message.call_id)}, which {fault}",
            )
        group, position = calls.popleft()
        group.results[position] = message
    return [_cleaned(each) for group in groups for each in group.in_order() if not _is_empty(each)]


def _cleaned(message: ImportedMessage) -> ImportedMessage:
    """Return the message without characters that show a reader something else than a model, as other messages."""
    content, reasoning = clean_text(message.content), message.reasoning
    if reasoning is not None:
        reasoning = clean_text(reasoning)[:MAX_REASONING]
    return changed(message, content=content, reasoning=reasoning)


def _is_empty(message: ImportedMessage) -> bool:
    """Return whether the message says nothing, such as an answer whose only parts were left out."""
    return message.role == "assistant" and not (
        message.content or message.calls or message.files or message.reasoning
    )
