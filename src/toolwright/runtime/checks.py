"""Checks of callers' parameters before they reach a store, so that all stores reject the same values."""

from toolwright.core.checks import Kinds, brief_value, invalid_value, misfit
from toolwright.core.errors import NotFound
from toolwright.core.json_value import unwritable
from toolwright.core.text import brief

_LARGEST = 2**63 - 1  # the largest number that every store can hold


def by_id(what: str, value: str) -> str:
    """Return the id. Raises `NotFound` for an impossible id, `InvalidRequest` for an object that has an id."""
    if type(value) is not str:
        refuse_object(what, value)
    if not can_be_id(value):
        raise NotFound(f"There is no {what} {brief(repr(value), 200)}.")
    return value


def refuse_object(what: str, value: object) -> None:
    """Raise `InvalidRequest` for an object, such as a thread or a run, in place of its id."""
    name = next((name for name in (f"{what}_id", "id") if isinstance(getattr(value, name, None), str)), None)
    if name is not None:
        raise invalid_value(f"{what}_id", f"must be an id, not a {type(value).__name__}: pass its .{name}")


def can_be_id(value: object) -> bool:
    """Return whether the value is an id that every store can hold."""
    return isinstance(value, str) and not unwritable(value)


def by_kind(name: str, value: object, kinds: Kinds, expected: str) -> None:
    """Raise `InvalidRequest` unless the value is of one of these types."""
    if not isinstance(value, kinds):
        raise invalid_value(name, f"must be {expected}, not {brief_value(value)}")


def by_list(name: str, value: object, kinds: Kinds, expected: str) -> None:
    """Raise `InvalidRequest` unless the value is a list of these types, or None."""
    wrong = None if value is None else misfit(value, kinds)
    if wrong is not None:
        raise invalid_value(name, f"must be a list of {expected}, not {wrong}")


def by_text(name: str, value: str | None) -> str | None:
    """Return the text of a filter. Raises `InvalidRequest` unless it is text that every store can hold."""
    if value is not None and (not isinstance(value, str) or unwritable(value)):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        refuse_object(name.removesuffix("_id"), value)
        raise invalid_value(name, "must be text without NUL or lone surrogates")
    return value


def page(limit: int, offset: int = 0) -> None:
    """Raise `InvalidRequest` unless these are non-negative integers that every store can hold."""
    for name, number in (("limit", limit), ("offset", offset)):
        whole_number(name, number)


def whole_number(name: str, number: int) -> None:
    """Raise `InvalidRequest` unless the value is a non-negative integer that every store can hold."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _LARGEST:  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise invalid_value(name, "must be a non-negative integer")
