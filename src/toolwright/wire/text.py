"""Text that may reach a model, without what a person would not see; and arguments that are still coming."""

import json
import re
from collections.abc import Container

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, dumps

_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\U000e0000-\U000e007f]")
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
_UNCLEAN = re.compile(r"\\[bfu]|[\x7f-\x9f\ud800-\udfff\U000e0000-\U000e007f]")  # within JSON text
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Without control characters (but line breaks and tabs) and tag characters; lone surrogates replaced."""
    if text.isascii() and text.isprintable():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _HIDDEN.sub("", text)


def plain_line(text: str) -> str:
    """The text, clean, on one line."""
    return " ".join(clean_text(text).split())


def speaker_name(name: str) -> str:
    """A name as it stands before what was said, between brackets: on one line, and without any of its own."""
    return plain_line(name.replace("[", "(").replace("]", ")"))


def clean_json(value: JSON) -> JSON:
    """A JSON value with clean texts, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        cleaned: dict[str, JSON] = {}
        for key, item in value.items():
            cleaned[_free(clean_text(key), key, value, cleaned)] = clean_json(item)
        return cleaned
    return value


def _free(name: str, key: str, value: Container[str], cleaned: Container[str]) -> str:
    """The name of a key without what nobody sees; with a number behind it, where another key has that name."""
    free, number = name, 2
    while free in cleaned or (free != key and free in value):
        free = f"{name} ({number})"
        number += 1
    return free


def readable(value: JSON) -> str:
    """Compact JSON text for a model: clean, and with letters as they are."""
    try:
        text = to_json(value).decode()
    except PydanticSerializationError:  # half a character
        text = _encode(value)
    if (
        text.isascii() and "\\" not in text and "\x7f" not in text
    ):  # JSON escapes the other control characters
        return text
    if _UNCLEAN.search(text) is None:
        return text
    return _encode(clean_json(value))


def partial_json(text: str) -> JSON:
    """The value as far as it is readable, best effort; null where nothing is, or what JSON cannot carry: 1e999."""
    if not text:
        return {}
    try:
        value: JSON = from_json(text, allow_inf_nan=False, allow_partial="trailing-strings")
        dumps(value)
    except (ValueError, TypeError, InvalidJSON):  # a TypeError for half a character
        return None
    return value
