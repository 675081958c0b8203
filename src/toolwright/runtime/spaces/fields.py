"""Fields of spaces and of their messages, validated before they are stored."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import cast, get_args

from toolwright.core.checks import brief_value, invalid_value
from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import (
    LONG_KEY,
    NOT_ONE_LINE,
    NOT_WRITABLE,
    JSONObject,
    has_long_key,
    one_line,
    plain,
    unwritable,
)
from toolwright.core.limits import MAX_NAME
from toolwright.core.spaces import DeliveryOrder, Space, SpaceFields, SpaceKind
from toolwright.core.value import changed

MAX_TEXT = 100_000
MAX_EMOJI = 64
TICK = timedelta(microseconds=1)
MAX_ID = 128
OWN_ID = r"[A-Za-z0-9_.~-]+"
_ID = re.compile(OWN_ID)


def id_of(value: object) -> str:
    """Return an id chosen by the caller, which must be URL-safe."""
    fits = isinstance(value, str) and len(value) <= MAX_ID and _ID.fullmatch(value)
    if not isinstance(value, str) or not fits or value in {".", ".."}:
        raise invalid_value("id", f"must be 1 to {MAX_ID} letters, digits or any of _ . ~ -")
    return value


def kind_of(value: object) -> SpaceKind:
    """Return the value if it is a kind of space."""
    if value not in get_args(SpaceKind):
        kinds = ", ".join(map(repr, get_args(SpaceKind)))
        raise invalid_value("kind", f"must be one of {kinds}, not {brief_value(value)}")
    return cast("SpaceKind", value)


def delivery_of(value: object) -> DeliveryOrder:
    """Return the value if it is a delivery order."""
    if value not in get_args(DeliveryOrder):
        orders = ", ".join(map(repr, get_args(DeliveryOrder)))
        raise invalid_value("delivery", f"must be one of {orders}, not {brief_value(value)}")
    return cast("DeliveryOrder", value)


def name_of(path: str, value: object) -> str | None:
    """Return a short text of one line, or None."""
    text = text_of(path, value)
    if text is not None and not (text.strip() and len(text) <= MAX_NAME):
        raise invalid_value(path, f"must have 1 to {MAX_NAME} characters")
    if text is not None and not one_line(text):
        raise invalid_value(path, NOT_ONE_LINE)
    return text


def role_of(value: object) -> str:
    """Return a member's role: any short text."""
    role = name_of("role", value)
    if role is None:
        raise invalid_value("role", "must be text")
    return role


def text_of(path: str, value: object) -> str | None:
    """Return a text, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid_value(path, f"must be text, not {brief_value(value)}")
    if unwritable(value):
        raise invalid_value(path, NOT_WRITABLE)
    if len(value) > MAX_TEXT:
        raise invalid_value(path, f"must have at most {MAX_TEXT} characters")
    return value


def emoji_of(value: object) -> str:
    """Return an emoji: a short text without whitespace."""
    text = text_of("emoji", value)
    if text is None or not text or len(text) > MAX_EMOJI or text.split() != [text]:
        raise invalid_value("emoji", f"must have 1 to {MAX_EMOJI} characters and no white space")
    return text


def metadata_of(value: object) -> JSONObject:
    """Return an object, empty if the value is None."""
    try:
        copy = plain({} if value is None else value)
    except InvalidJSON as error:
        raise invalid_value("metadata", error.message.rstrip(".")) from error
    if not isinstance(copy, dict):
        raise invalid_value("metadata", "must be an object")
    if has_long_key(copy):
        raise invalid_value("metadata", LONG_KEY)
    return copy


def changed_space(was: Space, fields: SpaceFields, now: datetime) -> Space:
    """Return the space with these fields and a timestamp later than the previous one."""
    _refuse_unknown(fields)
    new = changed(was, updated_at=max(now, was.updated_at + TICK))
    if "name" in fields:
        new = changed(new, name=name_of("name", fields["name"]))
    if "description" in fields:
        new = changed(new, description=text_of("description", fields["description"]))
    if "metadata" in fields:
        new = changed(new, metadata=metadata_of(fields["metadata"]))
    if "delivery" in fields:
        new = changed(new, delivery=delivery_of(fields["delivery"]))
    return new


def _refuse_unknown(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in SpaceFields.__annotations__]
    if unknown:
        raise invalid_value(
            unknown[0], "is not a field of a space; the fields are name, description, metadata and delivery"
        )
