"""The decorator of all values: frozen for the type checker, cheap to make at run time.

A dataclass with `frozen=True` sets each field through `object.__setattr__`, which makes it three to four times
as dear to build. A step of a run builds some thirty values, so immutability is checked where it costs nothing:
statically (see docs/decisions/0004-values.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """A keyword-only dataclass with slots, hashable and comparable by its fields, never to be changed."""
    return dataclass(kw_only=True, slots=True, unsafe_hash=True)(cls)


def changed(old: T, **new: object) -> T:
    """`dataclasses.replace` at a quarter of its cost, for values that a run remakes at every step."""
    made = _copier(type(old))(old)
    for name, field in new.items():
        setattr(made, name, field)
    return made


@cache
def _copier(cls: type[T]) -> Callable[[T], T]:
    """A function that copies one value of that class, written out field by field, as dataclasses do it."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # a class made by `value`
    lines = ["def copy(old):", " made = new(cls)", *[f" made.{n} = old.{n}" for n in names], " return made"]
    space: dict[str, Any] = {"new": object.__new__, "cls": cls}  # what the written function may name
    exec("\n".join(lines), space)  # noqa: S102 - the text is made of field names alone
    copy: Callable[[T], T] = space["copy"]
    return copy
