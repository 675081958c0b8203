"""Values and errors of Monty as they are meant: a cycle is one, and an exception that it cannot make says which."""

import re

from toolwright.core.errors import InvalidJSON
from toolwright.core.json_value import JSON
from toolwright.core.plain import Path, plain, spell

_CYCLES = {"[...]": list, "(...)": list, "{...}": dict}
"""What Monty carries instead of a list or a dict that holds itself. As a text within one it is refused too."""

_UNMADE = "RuntimeError: Internal error in monty: exceptions can only be called with zero or one string"
_MADE = re.compile(r"\b([A-Z][A-Za-z]*)\(\s*(-?\d[\d_.]*|None|True|False)\s*\)")
_SLEPT = "TimeoutError: sleep limit exceeded"


def read(value: object) -> JSON:
    """The value as JSON; raises `InvalidJSON` also for a cycle."""
    copy = plain(value)
    path = _cycle(copy, (), ())
    if path is not None:
        raise InvalidJSON(f"{spell(path)} contains itself, which JSON cannot carry.")
    return copy


def raised(message: str, source: str) -> str:
    """The message of an error that was raised as it is, where Monty could only say that it cannot make it."""
    if not message.startswith(_UNMADE):
        return message
    made = {f"{name}: {given}" for name, given in _MADE.findall(source)}
    if len(made) == 1:
        return made.pop()
    return "RuntimeError: An exception takes one text or nothing here; write it as in `raise ValueError('text')`."


def slept_too_long(message: str) -> bool:
    """Whether the code wanted to sleep beyond its time."""
    return message.startswith(_SLEPT)


def _cycle(value: JSON, path: Path, above: tuple[type, ...]) -> Path | None:
    """The path of the first cycle, None if there is none."""
    if isinstance(value, str):
        return path if _CYCLES.get(value) in above else None
    if not isinstance(value, dict | list):
        return None
    above = (*above, type(value))
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        found = _cycle(item, (*path, step), above)
        if found is not None:
            return found
    return None
