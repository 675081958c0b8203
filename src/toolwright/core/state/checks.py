"""Validation of the arguments of `ThreadState` methods: each error message is one sentence."""

import json
import math
from collections.abc import Sequence
from typing import cast

from toolwright.core.checks import brief_value, misfit
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import (
    JSON,
    NOT_WRITABLE,
    JSONObject,
    dumps,
    dumps_unescaped,
    plain,
    unwritable,
)
from toolwright.core.results import Attachment, AttachmentRef, InvalidField, checked_parts
from toolwright.core.text import quantity
from toolwright.core.threads.event import BUILT_IN

MAX_KEY = 200
"""Maximum number of characters of a value's key."""
MAX_KEPT = 1024 * 1024
"""Maximum size in bytes of a value as JSON."""
MAX_EVENT_TYPE = 200  # maximum number of characters
_MAX_INTEGER = 2**63 - 1  # the largest integer that every journal can store
_HUGE = 2**1000  # well within the range of a float


def text(what: str, value: object) -> str:
    """Validate a text that every journal can store. It can be empty."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} must be text, not {brief_value(value)}.")
    if unwritable(value):
        raise InvalidRequest(f"{what} {NOT_WRITABLE}.")
    return str.__str__(value)


def message(value: object) -> str:
    """Validate the content of a message."""
    content = text("A message", value)
    if not content.strip():
        raise InvalidRequest("A message must be non-empty text.")
    return content


def page(limit: object, offset: object) -> None:
    """Raise `InvalidRequest` for an invalid limit or offset."""
    for name, number in (("limit", limit), ("offset", offset)):
        if type(number) is not int or not 0 <= number <= _MAX_INTEGER:
            raise InvalidRequest(
                f"The {name} of messages must be a non-negative integer, not {brief_value(number)}."
            )


def files(value: object) -> Sequence[Attachment | AttachmentRef]:
    """Validate the attachments of a message."""
    wrong = misfit(value, (Attachment, AttachmentRef))
    if wrong is not None:
        raise InvalidRequest(f"The attachments must be a list of Attachment and AttachmentRef, not {wrong}.")
    parts = list(cast("Sequence[Attachment | AttachmentRef]", value))  # validated above
    try:
        return checked_parts(parts, "Attachment")
    except InvalidField as error:
        raise InvalidRequest(str(error)) from error


def tool_call(name: object, arguments: object) -> tuple[str, str]:
    """Validate a tool call of a handler. Return the tool's name and the arguments as JSON text.

    Raises `InvalidJSON` for arguments that are not JSON.
    """
    called = text("The name of a tool", name)
    if isinstance(arguments, str):
        return called, text("The JSON of a tool's arguments", arguments)
    parsed = plain({} if arguments is None else arguments)
    if not isinstance(parsed, dict):
        raise InvalidRequest(
            f"The arguments of a tool must be an object or its JSON text, not {brief_value(arguments)}."
        )
    return called, dumps_unescaped(parsed)


def key(value: object) -> str:
    """Validate the key of a stored value."""
    name = text("The key of a value", value)
    if not name or len(name) > MAX_KEY:
        raise InvalidRequest(f"The key of a value must have 1 to {MAX_KEY} characters, not {len(name)}.")
    return name


def encoded_value(name: str, value: JSON) -> str | None:
    """Return the JSON text of a value to store in a thread, or None to delete it."""
    if value is None:
        return None
    encoded = dumps(value)
    if len(encoded) > MAX_KEPT:
        raise InvalidRequest(
            f"The value {brief_value(name)} has {quantity(len(encoded), 'byte')} as JSON. "
            f"At most {MAX_KEPT} are allowed."
        )
    return encoded


def progress(done: object, total: object, comment: object) -> JSONObject:
    """Return the progress of a call, without fields that are None."""
    report: JSONObject = {"done": _number("done", done)}
    if total is not None:
        report["total"] = _number("total", total)
    if comment is not None:
        report["text"] = text("The text of a progress", comment)
    return report


def event(kind: object, content: JSON) -> tuple[str, JSON]:
    """Validate a handler's event. Return its type and a copy of its content, so that the handler can change its own.

    Raises `InvalidRequest` for the type, `InvalidJSON` for content that is not JSON.
    """
    if not isinstance(kind, str) or not kind.strip() or unwritable(kind):
        raise InvalidRequest(
            f"The type of an event must be non-empty text without NUL or lone surrogates, not {brief_value(kind)}."
        )
    if len(kind) > MAX_EVENT_TYPE:
        raise InvalidRequest(f"The type of an event must have at most {MAX_EVENT_TYPE} characters.")
    if kind in BUILT_IN:
        raise InvalidRequest(
            f"Events of the type {str.__str__(kind)!r} are reserved for the runtime. Choose another type."
        )
    return str.__str__(kind), json.loads(dumps(content))


def _number(name: str, value: object) -> int | float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGE:
        return value
    raise InvalidRequest(f"The {name} of a progress must be a finite number, not {brief_value(value)}.")
