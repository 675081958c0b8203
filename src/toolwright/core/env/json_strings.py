"""Changing the strings of a JSON text and leaving all else of it as it was written."""

import json
import re
from collections.abc import Callable

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON, dumps

_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')


def clean_strings(text: str, clean: Callable[[JSON], JSON]) -> str | None:
    """The text of an object or a list with every string and number as `clean` gives it; None if it is neither.

    Where two keys become equal it is written anew, with the keys that `clean` gives to the whole.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value = _read(text)
        again = _SCALAR.sub(lambda found: _scalar(found[0], clean), text)
        whole = clean(value)
        return again if _read(again) == whole else dumps(whole)
    except (ValueError, RecursionError, InvalidJSON):
        return None


def _scalar(text: str, clean: Callable[[JSON], JSON]) -> str:
    value: JSON = json.loads(text)
    new = clean(value)
    return text if new == value else dumps(new)


def _read(text: str) -> JSON:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> JSON:
    raise ValueError(f"{constant} is no JSON")
