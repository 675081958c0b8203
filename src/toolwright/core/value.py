"""The decorator of all values: frozen for the type checker, cheap to make at run time.

A dataclass with `frozen=True` sets each field through `object.__setattr__`, which makes it three to four times
as dear to build. A step of a run builds some thirty values, so immutability is checked where it costs nothing:
statically (see docs/decisions/0004-values.md).
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """A keyword-only dataclass with slots, hashable and comparable by its fields, never to be changed."""
    return dataclass(kw_only=True, slots=True, unsafe_hash=True)(cls)
