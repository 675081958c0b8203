"""The decorator of all values: frozen for the type checker, cheap to make at run time.

A dataclass with `frozen=True` sets each field through `object.__setattr__`, which makes it three to four times
as dear to build. A step of a run builds some thirty values, so immutability is checked where it costs nothing:
statically (see docs/decisions/0004-values.md). The methods of a class are written when one of them is first called: a
process makes, compares and shows values of a few classes, and imports three hundred.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Return a keyword-only dataclass with slots, hashable and comparable by its fields, never to be changed."""
    for method in _METHODS:
        if method.__name__ not in cls.__dict__:
            setattr(cls, method.__name__, method)
    return dataclass(kw_only=True, slots=True, init=False, eq=False, repr=False)(cls)


def _init(self: object, **named: object) -> None:
    _write_methods(type(self))
    type(self).__init__(self, **named)  # type: ignore[call-arg]  # by now it takes the fields


def _equal(self: object, other: object) -> bool:
    _write_methods(type(self))
    return self.__eq__(other)


def _hash(self: object) -> int:
    _write_methods(type(self))
    return self.__hash__()


def _repr(self: object) -> str:
    _write_methods(type(self))
    return self.__repr__()


_METHODS = (_init, _equal, _hash, _repr)
for _method, _name in zip(_METHODS, ("__init__", "__eq__", "__hash__", "__repr__"), strict=True):
    _method.__name__ = _name


def _write_methods(cls: type[object]) -> None:
    """Put the methods in the place of those that have asked for them, as `dataclass` would have written them."""
    all_fields = fields(cls)  # type: ignore[arg-type]  # a class made by `value`
    space: dict[str, Any] = {
        "recursive": recursive_repr(),
        "MISSING": MISSING,
    }  # what the written functions may name
    for field in all_fields:
        space[f"default_{field.name}"] = field.default
        space[f"make_{field.name}"] = field.default_factory
    lines = _initializer(all_fields, has_post_init=hasattr(cls, "__post_init__"))
    names = [field.name for field in all_fields if field.compare]
    lines += _methods(names, [field.name for field in all_fields if field.repr])
    exec("\n".join(lines), space)  # noqa: S102 - the text is made of field names alone
    for method in _METHODS:
        owner = next(each for each in cls.__mro__ if method.__name__ in each.__dict__)
        if owner.__dict__[method.__name__] is method:
            written = space[method.__name__]
            written.__qualname__ = f"{cls.__name__}.{method.__name__}"
            setattr(cls, method.__name__, written)


def _initializer(all_fields: tuple[Field[Any], ...], *, has_post_init: bool) -> list[str]:
    parameters, lines = ["self"], list[str]()
    for field in all_fields:
        name = field.name
        if field.default is not MISSING:
            parameters.append(f"{name}=default_{name}")
        elif field.default_factory is not MISSING:
            parameters.append(f"{name}=MISSING")
        else:
            parameters.append(name)
        made = f"make_{name}() if {name} is MISSING else {name}"
        lines.append(f" self.{name} = {name if field.default_factory is MISSING else made}")
    if has_post_init:
        lines.append(" self.__post_init__()")
    head = ", *, ".join([parameters[0], ", ".join(parameters[1:])]) if all_fields else "self"
    return [f"def __init__({head}):", *(lines or [" pass"])]


def _methods(names: list[str], shown_fields: list[str]) -> list[str]:
    ours, theirs = (f"({''.join(f'{of}.{name}, ' for name in names)})" for of in ("self", "other"))
    parts = ", ".join(f"{name}={{self.{name}!r}}" for name in shown_fields)
    return [
        "def __eq__(self, other):",
        f" return {ours} == {theirs} if other.__class__ is self.__class__ else NotImplemented",
        "def __hash__(self):",
        f" return hash({ours})",
        "@recursive",
        "def __repr__(self):",
        f' return f"{{self.__class__.__qualname__}}({parts})"',
    ]


def changed(old: T, /, **new: object) -> T:
    """Return a dataclass with these fields new: `dataclasses.replace` at a sixth of its cost."""
    return _changer(type(old), *new)(old, new)


@cache
def _changer(cls: type[T], *new: str) -> Callable[[T, dict[str, object]], T]:
    """Return a function that copies one value of that class with these fields new, written out field by field."""
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]  # a dataclass
    unknown = [name for name in new if name not in names]
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}.")
    sources = {name: f"new[{name!r}]" if name in new else f"old.{name}" for name in names}
    frozen: bool = cls.__dataclass_params__.frozen  # type: ignore[attr-defined]  # a dataclass
    put = " put(made, {0!r}, {1})" if frozen else " made.{0} = {1}"
    lines = ["def change(old, new):", " made = create(cls)", *[put.format(*each) for each in sources.items()]]
    if hasattr(cls, "__post_init__"):
        lines.append(" made.__post_init__()")
    space: dict[str, Any] = {"create": object.__new__, "cls": cls, "put": object.__setattr__}
    exec("\n".join([*lines, " return made"]), space)  # noqa: S102 - the text is made of field names alone
    change: Callable[[T, dict[str, object]], T] = space["change"]
    return change


def maker(cls: type[T], field: str, **others: object) -> Callable[[Any], T]:  # any value of that field
    """Return a function that creates values which differ in one field, in half the time of a call with keywords."""
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]  # a class made by `value`
    sets = [f" made.{name} = {name}" for name in names]
    lines = [f"def make({field}):", " made = new(cls)", *sets, " return made"]
    space: dict[str, Any] = {
        **others,
        "new": object.__new__,
        "cls": cls,
    }  # what the written function may name
    exec("\n".join(lines), space)  # noqa: S102 - the text is made of field names alone
    make: Callable[[Any], T] = space["make"]
    return make
