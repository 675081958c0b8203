"""Defaults of arguments: judged by their own types where they are declared, and made anew for every call."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from toolwright.core.checks import brief_value
from toolwright.core.form_faults import form_fault
from toolwright.core.json_value import JSON
from toolwright.core.plain import Path, plain, spell

_UNCHANGING = (str, int, float, bool, Enum, type(None))
_SCALARS: dict[object, Callable[[object], bool]] = {
    str: lambda value: type(value) is str,
    int: lambda value: type(value) is int,
    float: lambda value: type(value) is float,
    bool: lambda value: type(value) is bool,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Makes values of a type from their JSON.

    With `copies` the values share nothing with each other, also where pydantic takes a default for unchanging.
    Without `extra` no type takes fields that it does not know, as its schema says: else a union would lose them.
    """

    adapter: TypeAdapter[object]
    copies: bool = False
    extra: bool = False

    def build(self, value: JSON) -> object:
        """The value; raises pydantic's `ValidationError`.

        Strict and from JSON: only so pydantic takes a text for an enum, and nothing but a text for a text.
        """
        built = self.adapter.validate_json(
            to_json(value), strict=True, extra=None if self.extra else "forbid"
        )
        return copy.deepcopy(built) if self.copies else built


def is_plain_scalar(annotation: Any, value: object) -> bool:  # any annotation
    """Whether the value is of that type and the type is so simple that nobody else must be asked."""
    fits = _SCALARS.get(annotation)
    return fits is not None and fits(value)


def is_shared(value: object) -> bool:
    """Whether pydantic would give the same changeable object to every call: it copies what cannot be hashed."""
    if isinstance(value, _UNCHANGING):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def fresh(adapter: TypeAdapter[object], value: object) -> Callable[[], object] | None:
    """What makes the default for each call; None where the value can serve them all.

    A value of another Python type, such as a text for an enum or a tuple for a list, is built from its JSON. Raises
    pydantic's `ValidationError` for one that the type refuses in both.
    """
    build = functools.partial(_from_python, adapter, value)
    try:
        built = build()
    except ValidationError:
        build = functools.partial(adapter.validate_json, to_json(plain(value)), strict=True)
        built = build()
    if type(built) is not type(value) or built != value:
        return build
    return None if isinstance(value, _UNCHANGING) else functools.partial(copy.deepcopy, value)


def _from_python(adapter: TypeAdapter[object], value: object) -> object:
    return adapter.validate_python(copy.deepcopy(value), strict=True)


def misfit_default(value: object, error: ValidationError) -> str:
    """The end of a sentence that begins with the parameter: what its type says of the default."""
    first = error.errors(include_url=False)[0]
    within = spell(place_in(plain(value), first["loc"]))
    if within:
        return f"has a default whose part {within} {form_fault(first)}"
    mended = "; if it may be None, annotate it so (`int | None`)" if value is None else ""
    return f"has the default {brief_value(value)}, but it {form_fault(first)}{mended}"


def place_in(value: JSON, location: tuple[int | str, ...]) -> Path:
    """The steps of pydantic's location that the value has; the others are names of a union's branches."""
    steps: list[str | int] = []
    for step in location:
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int() if 0 <= step < len(value):
                value = value[step]
            case _:
                continue
        steps.append(step)
    return tuple(steps)
