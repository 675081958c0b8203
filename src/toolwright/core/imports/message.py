"""Imported message: a message of a conversation from elsewhere, before it is stored; and the reader of its JSON."""

import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NoReturn

from toolwright.core.checks import brief_value, invalid_value
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped, unwritable, utf8_longer
from toolwright.core.limits import MAX_ID, MAX_MESSAGE, MAX_NAME
from toolwright.core.results import Attachment, unchecked
from toolwright.core.text import clean_text
from toolwright.core.value import Value

MAX_IMPORTED = 10_000
"""Maximum number of messages of an imported conversation, results of its calls included."""
MAX_IMPORTED_TEXT = 64 * 1024 * 1024
"""Maximum number of characters of an imported conversation."""

SYSTEM = ("system", "developer")
"""Roles whose messages are left out: the agent has its own instructions."""


class ImportedCall(Value):
    """A call of an imported answer. `id` is the id that the source gave it; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class ImportedMessage(Value):
    """A message of a conversation from elsewhere. `place` is the index of its source in the conversation.

    A tool message answers the call with the source's id `call_id`. `id` is the id that the source gave the message.
    """

    place: int
    role: Literal["user", "assistant", "tool"]
    content: str = ""
    calls: tuple[ImportedCall, ...] = ()
    call_id: str | None = None
    tool_name: str | None = None
    status: Literal["success", "error"] = "success"
    files: tuple[Attachment, ...] = ()
    reasoning: str | None = None
    id: str | None = None
    created_at: datetime | None = None


def refuse(path: str, error: str) -> NoReturn:
    """Raise the error of an invalid conversation."""
    raise invalid_value(path, error)


class ImportedPart:
    """An object of a conversation, with its path for errors."""

    __slots__ = ("path", "value")

    def __init__(self, value: JSON, path: str) -> None:
        if not isinstance(value, dict):
            refuse(path, f"must be an object, not {brief_value(value)}")
        self.value: JSONObject = value
        self.path = path

    def has(self, *names: str) -> bool:
        """Return whether one of the fields has a value."""
        return any(self.value.get(name) is not None for name in names)

    def needs(self, *names: str) -> None:
        """Refuse the object unless it has one of the fields."""
        if not any(name in self.value for name in names):
            refuse(self.path, f"must have {' or '.join(names)}")

    def text(self, name: str) -> str:
        """Return a field, which must be text."""
        given = self.value.get(name)
        if not isinstance(given, str):
            found = "is missing" if given is None else f"must be text, not {brief_value(given)}"
            refuse(f"{self.path}.{name}", found)
        return given

    def optional(self, name: str) -> str | None:
        """Return a field that is text, or None."""
        return None if self.value.get(name) is None else self.text(name)

    def name(self, name: str, most: int = MAX_NAME) -> str:
        """Return a field that is a name: text that is neither empty nor long."""
        given = self.text(name)
        if not given or len(given) > most or unwritable(given):
            refuse(f"{self.path}.{name}", f"must have 1 to {most} characters, without NUL or lone surrogates")
        return given

    def id(self, name: str) -> str:
        """Return a field that is the id of a call."""
        return self.name(name, MAX_ID)

    def own_id(self, name: str = "id") -> str | None:
        """Return the id of the message itself, or None."""
        return self.id(name) if self.has(name) else None

    def parts(self, name: str) -> "list[ImportedPart]":
        """Return a field that is a list of objects, or an empty list."""
        given = self.value.get(name)
        if given is None:
            return []
        path = f"{self.path}.{name}"
        if not isinstance(given, list):
            refuse(path, f"must be a list, not {brief_value(given)}")
        return [ImportedPart(each, f"{path}.{n}") for n, each in enumerate(given)]

    def part(self, name: str) -> "ImportedPart":
        """Return a field that is an object."""
        return ImportedPart(self.value.get(name), f"{self.path}.{name}")

    def arguments(self, name: str) -> str:
        """Return the arguments of a call as JSON text: those that are text as the model wrote them."""
        given = self.value.get(name)
        if isinstance(given, str):
            return within_limit(given, f"{self.path}.{name}") or "{}"
        return "{}" if given is None else dumps_unescaped(given)

    def time(self, name: str) -> datetime | None:
        """Return a field that is a timestamp: ISO 8601, in UTC if it has no offset, or seconds since 1970."""
        given = self.value.get(name)
        try:
            match given:
                case None:
                    return None
                case str():
                    read = datetime.fromisoformat(given)
                    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
                case int() | float():
                    return datetime.fromtimestamp(given, UTC)
                case _:
                    raise ValueError
        except (ValueError, OverflowError, OSError):
            refuse(f"{self.path}.{name}", f"must be a timestamp, not {brief_value(given)}")


def within_limit(text: str, path: str) -> str:
    """Return the text. Raises `InvalidRequest` if it is longer than a message can be."""
    if utf8_longer(text, MAX_MESSAGE):
        refuse(path, f"must have at most {MAX_MESSAGE} bytes")
    return text


@dataclass(slots=True)
class Content:
    """The text and the files of a message, from its parts."""

    lines: list[str] = field(default_factory=list[str])
    files: list[Attachment] = field(default_factory=list[Attachment])

    @property
    def text(self) -> str:
        """The texts of all parts, each on a line of its own."""
        return "\n".join(self.lines)

    def say(self, text: str | None) -> None:
        """Add a text, unless it is empty."""
        if text:
            self.lines.append(text)

    def mention(self, kind: str, where: str) -> None:
        """Add a line that names a file elsewhere: nothing is fetched."""
        self.lines.append(f"[{kind}: {clean_text(where)}]")

    def attach(self, kind: str, mime_type: str, data: str, name: str | None = None) -> None:
        """Add a file with its bytes in base64."""
        usual = f"{kind}{mimetypes.guess_extension(mime_type) or ''}"
        self.files.append(unchecked(name=name or usual, mime_type=mime_type, data=data))

    def attach_url(self, kind: str, url: str, name: str | None = None) -> None:
        """Add a file by its URL: the bytes of a data URL, or a line that names another one."""
        head, comma, data = url.partition(",")
        if not (comma and head.startswith("data:") and head.endswith(";base64")):
            self.mention(kind, url)
            return
        mime_type = head.removeprefix("data:").partition(";")[0] or "application/octet-stream"
        self.attach(kind, mime_type, data, name)


def read_content(owner: ImportedPart, name: str) -> Content:
    """Return the content of a message in a field: a text, or a list of parts as the APIs of the providers have them."""
    content, given = Content(), owner.value.get(name)
    if given is None or isinstance(given, str):
        content.say(None if given is None else within_limit(given, f"{owner.path}.{name}"))
        return content
    if not isinstance(given, list):
        refuse(f"{owner.path}.{name}", f"must be text or a list of parts, not {brief_value(given)}")
    for part in owner.parts(name):
        add_part(content, part)
    within_limit(content.text, f"{owner.path}.{name}")
    return content


def add_part(content: Content, part: ImportedPart) -> None:
    """Add a part of a message's content. Raises `InvalidRequest` for an unknown type."""
    match kind := part.text("type"):
        case "text" | "input_text" | "output_text":
            content.say(part.text("text"))
        case "refusal":
            content.say(part.text("refusal"))
        case "image_url":
            content.attach_url("image", part.part("image_url").text("url"))
        case "input_image" | "input_file":
            _add_input(content, part, kind.removeprefix("input_"))
        case "file":
            _add_input(content, part.part("file"), "file")
        case "input_audio":
            audio = part.part("input_audio")
            content.attach("audio", f"audio/{audio.text('format')}", audio.text("data"))
        case "image" | "document":
            _add_source(content, part, kind)
        case "search_result":
            content.say(f"{part.text('title')} ({part.text('source')})")
            content.say(read_content(part, "content").text)
        case _:
            refuse(f"{part.path}.type", f"is {kind!r}, which cannot be imported")


def _add_input(content: Content, part: ImportedPart, kind: str) -> None:
    """Add an image or a file of OpenAI's APIs: its data, its URL, or its id at OpenAI."""
    name = part.optional("filename")
    for field_name in ("image_url", "file_data", "file_url"):
        if part.has(field_name):
            content.attach_url(kind, part.text(field_name), name)
            return
    content.mention(kind, part.text("file_id"))


def _add_source(content: Content, part: ImportedPart, kind: str) -> None:
    """Add an image or a document of Anthropic's API."""
    source = part.part("source")
    match source.text("type"):
        case "base64":
            content.attach(kind, source.text("media_type"), source.text("data"), part.optional("title"))
        case "text":
            content.say(source.text("data"))
        case "url":
            content.mention(kind, source.text("url"))
        case "file":
            content.mention(kind, source.text("file_id"))
        case "content":
            nested = read_content(source, "content")
            content.lines += nested.lines
            content.files += nested.files
        case other:
            refuse(f"{source.path}.type", f"is {other!r}, which cannot be imported")


def joined(texts: Iterable[str | None]) -> str | None:
    """Return the texts as paragraphs, or None if all are empty."""
    return "\n\n".join([each for each in texts if each]) or None


def numbered(messages: Iterable[JSON]) -> Iterator[tuple[int, ImportedPart]]:
    """Yield the messages with their places."""
    for place, message in enumerate(messages):
        yield place, ImportedPart(message, f"messages.{place}")


def first_of(value: Mapping[str, JSON], *names: str) -> str:
    """Return the first of the names that the object has, or the first name."""
    return next((name for name in names if value.get(name) is not None), names[0])
