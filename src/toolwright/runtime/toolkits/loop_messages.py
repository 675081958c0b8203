"""Messages of the caller's own loop: read from the formats of OpenAI and Anthropic, and written back shortened."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import cast

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.json_value import JSON, JSONObject, dumps, plain
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.compaction import HEADER, TITLE, is_reference
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.value import changed

OLD_HEADER = f"{HEADER}before"
"""The id of the message that represents the messages left out earlier."""
_SYSTEM = ("system", "developer")
_FILES = ("image", "image_url", "input_image", "document", "file", "input_audio")
"""Types of content blocks that hold files, as base64 or as a URL: each counts as an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the caller's message at `index`: its text and calls, or one tool result that it contains.

    `blocks` are the positions of its content blocks, or None for the whole content.
    """

    message: Message
    index: int
    blocks: tuple[int, ...] | None = None


class LoopMessages:
    """The caller's messages converted to ours, in order. Leading system messages are not among `messages`.

    Raises `InvalidRequest` for a message in neither format.
    """

    def __init__(self, written: Sequence[object], at: datetime) -> None:
        self._written = written
        self._forms = [_form(each, index) for index, each in enumerate(written)]
        roles = [form["role"] for form in self._forms]
        self._lead = next((n for n, role in enumerate(roles) if role not in _SYSTEM), len(roles))
        parts: list[Part] = []
        for index in range(self._lead, len(roles)):
            parts += _parts(self._forms[index], index, at)
        self._counts = {index: len([*group]) for index, group in groupby(parts, lambda part: part.index)}
        self.messages = [changed(part.message, seq=n) for n, part in enumerate(parts, 1)]
        if self.messages and _is_header(self.messages[0]):
            self.messages[0] = changed(self.messages[0], id=OLD_HEADER, seq=None)
        ids = [message.id for message in self.messages]
        self._parts = dict(zip(ids, parts, strict=True))
        self._own = {id(each) for each in self.messages}

    @property
    def system_text(self) -> str:
        """The text of the leading system messages."""
        return "\n\n".join([_text(form.get("content")) for form in self._forms[: self._lead]])

    @property
    def has_left_out(self) -> bool:
        """Return whether messages were already left out of them."""
        return has_left_out(self.messages)

    def write(self, messages: Sequence[Message]) -> list[object]:
        """Return a subset of these messages in the caller's format. Unchanged messages are the same objects."""
        written: list[object] = [*self._written[: self._lead]]
        for index, group in groupby(messages, self._index):
            remaining = [*group]
            if index is None:
                written += [{"role": "user", "content": each.content} for each in remaining]
            elif len(remaining) == self._counts[index] and all(id(each) in self._own for each in remaining):
                written.append(self._written[index])
            else:
                written.append(self._rewritten(index, remaining))
        return written

    def _index(self, message: Message) -> int | None:
        part = self._parts.get(message.id)
        return None if part is None else part.index

    def _rewritten(self, index: int, messages: Sequence[Message]) -> JSONObject:
        form = self._forms[index]
        content: list[JSON] = []
        for message in messages:
            places = self._parts[message.id].blocks
            if places is None:
                return {**form, "content": message.content}
            for place in places:
                block = cast("list[JSONObject]", form["content"])[place]
                is_same = id(message) in self._own
                content.append(block if is_same else {**block, "content": message.content})
        return {**form, "content": content}


def has_left_out(messages: Sequence[Message]) -> bool:
    """Return whether something is left out of the messages: they begin with a header, or contain references."""
    return any(
        is_reference(each.content) if each.role == "tool" else each.id.startswith(HEADER) for each in messages
    )


def _is_header(message: Message) -> bool:
    return message.role == "user" and message.content.startswith(TITLE)


def _form(written: object, index: int) -> JSONObject:
    """Return the message as JSON."""
    try:
        form = plain(written)
    except InvalidJSON as error:
        raise InvalidRequest(f"messages[{index}] is not JSON: {error.message}") from error
    if not isinstance(form, dict) or form.get("role") not in ("user", "assistant", "tool", *_SYSTEM):
        raise InvalidRequest(
            f"messages[{index}] must be a message of OpenAI's chat completions or of Anthropic's messages, with a "
            f"role, not {brief_value(written)}."
        )
    content, calls = form.get("content"), form.get("tool_calls")
    for name, value, is_known in (
        ("content", content, isinstance(content, str | list | None)),
        ("tool_calls", calls, isinstance(calls, list | None)),
    ):
        if not is_known:
            raise InvalidRequest(f"messages[{index}].{name} has an unknown form: {brief_value(value)}.")
        if isinstance(value, list):
            for place, each in enumerate(value):
                if not isinstance(each, dict):
                    raise InvalidRequest(
                        f"messages[{index}].{name}[{place}] is not an object: {brief_value(each)}."
                    )
    return form


def _parts(form: JSONObject, index: int, at: datetime) -> Iterator[Part]:
    """Yield the parts of a message. A user's message can contain the results of several calls."""
    name, role, content = f"messages[{index}]", form["role"], form.get("content")
    blocks = [*_blocks(content)]
    if role == "tool":
        yield Part(message=_result(name, index, form.get("tool_call_id"), content, at), index=index)
        return
    if role == "user" and isinstance(content, list):
        for place, block in enumerate(blocks):
            if block.get("type") == "tool_result":
                result = _result(
                    f"{name}.content[{place}]", index, block.get("tool_use_id"), block.get("content"), at
                )
                yield Part(message=result, index=index, blocks=(place,))
        places = tuple([n for n, block in enumerate(blocks) if block.get("type") != "tool_result"])
        if not places and blocks:
            return
        remaining: list[JSON] = [blocks[place] for place in places]
        content, own = remaining, places
    else:
        own = None
    message = Message(
        id=name,
        role="assistant" if role == "assistant" else "user",
        content=_text(content),
        run_id=str(index),
        calls=tuple(_calls(form, blocks)),
        attachments=_files(content),
        pinned=role in _SYSTEM,
        created_at=at,
    )
    yield Part(message=message, index=index, blocks=own)


def _result(name: str, index: int, call_id: JSON, content: JSON, at: datetime) -> Message:
    return Message(
        id=name,
        role="tool",
        content=_text(content),
        run_id=str(index),
        call_id=str(call_id),
        attachments=_files(content),
        created_at=at,
    )


def _blocks(content: JSON) -> Iterator[JSONObject]:
    for block in content if isinstance(content, list) else ():
        yield block if isinstance(block, dict) else {}


def _calls(form: JSONObject, blocks: Sequence[JSONObject]) -> Iterator[MessageCall]:
    """Yield the calls of a message, in either format."""
    listed = form.get("tool_calls")
    for call in listed if isinstance(listed, list) else ():
        assert isinstance(call, dict), "checked when the message was read"
        function = call.get("function")
        if isinstance(function, dict):
            yield _call(call.get("id"), function.get("name"), function.get("arguments"))
        else:  # a custom tool, or an unknown kind: it counts
            yield _call(call.get("id"), call.get("type"), dumps(call))
    for block in blocks:
        if block.get("type") == "tool_use":
            yield _call(block.get("id"), block.get("name"), dumps(block.get("input")))


def _call(call_id: JSON, name: JSON, arguments: JSON) -> MessageCall:
    return MessageCall(id=str(call_id), name=str(name), arguments=str(arguments), model_call_id=str(call_id))


def _text(content: JSON) -> str:
    """Return the text of a content, with other blocks as JSON except for files and calls."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    texts: list[str] = []
    for block in _blocks(content):
        text = block.get("text")
        if isinstance(text, str):
            texts.append(text)
        elif block.get("type") not in ("tool_use", "tool_result", *_FILES):
            texts.append(dumps(block))
    return "\n".join(texts)


def _files(content: JSON) -> tuple[AttachmentRef, ...]:
    kinds = [str(block["type"]) for block in _blocks(content) if block.get("type") in _FILES]
    return tuple(
        [AttachmentRef(id=kind, path=kind, name=kind, mime_type="image/*", size=0) for kind in kinds]
    )


def answer_text(result: Mapping[str, JSON]) -> str:
    """Return the text of a handler's answer, as it appears in a loop's messages."""
    return _text(result["content"])
