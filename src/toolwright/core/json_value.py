"""JSON as a type, and its one way in and out of text."""

import json
from typing import TypeAlias

from toolwright.core.brief import sentence
from toolwright.core.errors import InvalidJSON

JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
JSONObject: TypeAlias = dict[str, JSON]

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def dumps(value: JSON) -> str:
    """Compact ASCII JSON. What JSON cannot carry (NaN, bytes, sets, cycles) raises `InvalidJSON`."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidJSON(sentence(f"This value cannot be written as JSON: {error}")) from error
