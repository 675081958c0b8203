"""Text for models, without invisible characters; and arguments that are still streaming."""

import json
import re
import unicodedata
from collections.abc import Container

from pydantic_core import PydanticSerializationError, from_json, to_json

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, dumps, one_line
from toolwright.core.text import clean_text

_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
# in JSON
_UNCLEAN = re.compile(r"\\[bfu]|[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]")
_LINE_END = re.compile("[\u2028\u2029]")
_LINE_ENDS = {0x2028: "\\u2028", 0x2029: "\\u2029"}  # line ends that JSON does not escape
_LABEL = re.compile(r"(?:agent|inbox|plan|service|subagent|tool result|you)\b")
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters without a visible glyph
NO_NUL = "[NUL characters of this result are left out.]"
"""The note after a result whose NUL characters a model is not sent, since its text has no control characters."""


def plain_line(text: str) -> str:
    """Return the text on one line, without control and tag characters."""
    return " ".join(clean_text(text).split())


def speaker_name(name: str) -> str:
    """Return a name as written in brackets before a message: on one line, and without brackets of its own."""
    return plain_line(name.replace("[", "(").replace("]", ")"))


def comparable_name(name: str) -> str:
    """Return the name normalized for comparison: without case, letter widths and invisible characters."""
    folded = unicodedata.normalize("NFKC", speaker_name(name)).casefold()
    return "".join([each for each in folded if not _is_invisible(each)]).strip()


def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) == "Cf" or "\ufe00" <= letter <= "\ufe0f" or letter in _BLANK


def is_title(name: str) -> bool:
    """Return whether a name is a single visible line without control or text-direction characters."""
    return one_line(name) and name == clean_text(name) and bool(comparable_name(name))


def is_misleading(name: str) -> bool:
    """Return whether a name in front of a message can be misread: as an id, a new line, or as empty."""
    comparable = comparable_name(name)
    if not comparable or comparable != unicodedata.normalize("NFC", speaker_name(name)).casefold():
        return True
    return _LABEL.match(comparable) is not None or any(mark in comparable for mark in '()"')


def clean_json(value: JSON) -> JSON:
    """Return a JSON value with clean texts, keys included."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        cleaned: dict[str, JSON] = {}
        last: dict[str, int] = {}  # numbers of the keys that are equal without invisible characters
        for key, item in value.items():
            cleaned[_free_key(clean_text(key), key, value, cleaned, last)] = clean_json(item)
        return cleaned
    return value


def _free_key(
    name: str, key: str, value: Container[str], cleaned: Container[str], last: dict[str, int]
) -> str:
    """Return the name of a key without invisible characters, numbered if another key has that name."""
    candidate = name
    while candidate in cleaned or (candidate != key and candidate in value):
        last[name] = last.get(name, 1) + 1
        candidate = f"{name} ({last[name]})"
    return candidate


def has_nul(value: JSON) -> bool:
    """Return whether a JSON value has a NUL character in one of its texts or keys."""
    match value:
        case str():
            return "\x00" in value
        case list():
            return any(map(has_nul, value))
        case dict():
            return any(map(has_nul, value)) or any(map(has_nul, value.values()))
        case _:
            return False


def readable(value: JSON) -> str:
    """Render compact JSON text for a model: one line, without control characters, letters not escaped."""
    return _readable(value)[0]


def readable_result(value: JSON) -> str:
    """Render a result like `readable`, with a note if it has NUL characters, which are removed."""
    text, is_changed = _readable(value)
    return f"{text} {NO_NUL}" if is_changed and has_nul(value) else text


def _readable(value: JSON) -> tuple[str, bool]:
    """Return the text, and whether characters were removed."""
    try:
        text = to_json(value).decode()
    except PydanticSerializationError:  # a lone surrogate
        text = _encode(value)
    # JSON escapes the other control characters
    if text.isascii() and "\\" not in text and "\x7f" not in text:
        return text, False
    is_unclean = _UNCLEAN.search(text) is not None
    if is_unclean:
        text = _encode(clean_json(value))
    return text.translate(_LINE_ENDS) if _LINE_END.search(text) else text, is_unclean


def partial_json(text: str) -> JSON:
    """Parse an incomplete JSON text as far as possible. Return None for invalid JSON or a value such as 1e999."""
    if not text:
        return {}
    try:
        value: JSON = from_json(text, allow_inf_nan=False, allow_partial="trailing-strings")
        dumps(value)
    except (ValueError, TypeError, InvalidJSON):  # a TypeError for a lone surrogate
        return None
    return value
