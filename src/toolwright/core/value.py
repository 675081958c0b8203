"""Decorator of all values: immutable for the type checker, cheap to create at run time. Records: values with a table.

A dataclass with `frozen=True` sets each field through `object.__setattr__`, which makes creating it three to four times
slower. A step of a run creates some thirty values, so immutability is checked where it costs nothing: statically (see
docs/decisions/0004-values.md). The constructor and the methods for comparison and `repr` are generated when they are
first used: a process creates values of some dozen classes, compares those of a few, and imports two hundred.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from reprlib import recursive_repr
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """Return a keyword-only dataclass with slots, hashable and comparable by its fields, which must not be changed."""
    for method in (_equal, _hash, _repr):
        if method.__name__ not in cls.__dict__:
            setattr(cls, method.__name__, method)
    made = dataclass(init=False, kw_only=True, slots=True, eq=False, repr=False)(cls)
    if "__init__" not in cls.__dict__:
        made.__init__ = _first_init(made)  # type: ignore[method-assign]
    return made


def _first_init(cls: type[object]) -> Callable[..., None]:
    """Return a constructor that replaces itself when the first value of the class is created."""

    def __init__(self: object, **values: object) -> None:  # noqa: N807
        _write_init(cls)
        cls.__init__(self, **values)

    return __init__


def _equal(self: object, other: object) -> bool:
    _write_methods(type(self))
    return self.__eq__(other)


def _hash(self: object) -> int:
    _write_methods(type(self))
    return self.__hash__()


def _repr(self: object) -> str:
    _write_methods(type(self))
    return self.__repr__()


_equal.__name__, _hash.__name__, _repr.__name__ = "__eq__", "__hash__", "__repr__"


def _write_init(cls: type[object]) -> None:
    """Write the constructor that `dataclass` would have generated."""
    all_fields = fields(cls)  # type: ignore[arg-type]  # a class made by `value`
    space: dict[str, Any] = {"missing": MISSING}  # names available to the generated function
    parameters, lines = [""], list[str]()
    for field in all_fields:
        space[f"_{field.name}"] = field.default if field.default_factory is MISSING else field.default_factory
        parameters.append(_parameter(field))
        is_made = field.default_factory is not MISSING
        made = f"_{field.name}() if {field.name} is missing else {field.name}" if is_made else field.name
        lines.append(f" self.{field.name} = {made}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    head = f"def __init__(self, *{', '.join(parameters)}):" if all_fields else "def __init__(self):"
    exec("\n".join([head, *(lines or [" pass"])]), space)  # noqa: S102 - the text is made of field names alone
    init = space["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = init  # type: ignore[method-assign]


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=missing"
    return field.name if field.default is MISSING else f"{field.name}=_{field.name}"


def _write_methods(cls: type[object]) -> None:
    """Replace the stub methods by the methods that `dataclass` would have generated."""
    names = [field.name for field in fields(cls) if field.compare]  # type: ignore[arg-type]  # a class made by `value`
    shown_fields = [field.name for field in fields(cls) if field.repr]  # type: ignore[arg-type]  # the same
    space: dict[str, Any] = {"recursive": recursive_repr()}  # names available to the generated functions
    exec("\n".join(_methods(names, shown_fields)), space)  # noqa: S102 - the text is made of field names alone
    for method in (_equal, _hash, _repr):
        owner = next(each for each in cls.__mro__ if method.__name__ in each.__dict__)
        if owner.__dict__[method.__name__] is method:
            setattr(cls, method.__name__, space[method.__name__])


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
    """Return a copy of the dataclass with these fields changed: `dataclasses.replace`, six times faster."""
    return _changer(type(old), *new)(old, new)


@cache
def _changer(cls: type[T], *new: str) -> Callable[[T, dict[str, object]], T]:
    """Return a function that copies a value of that class with these fields changed."""
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
    """Return a function that creates values of the class that differ in one field, in half the usual time."""
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]  # a class made by `value`
    sets = [f" made.{name} = {name}" for name in names]
    lines = [f"def make({field}):", " made = new(cls)", *sets, " return made"]
    space: dict[str, Any] = {
        **others,
        "new": object.__new__,
        "cls": cls,
    }  # names available to the generated function
    exec("\n".join(lines), space)  # noqa: S102 - the text is made of field names alone
    make: Callable[[Any], T] = space["make"]
    return make


@value
class Stored:
    """Storage of the records of a class. All names are fields, each with a column of that name.

    `key` identifies a record. `owner` is the id of the agent, thread or entity to which it belongs: records are listed
    by it, and deleted with it. `order` sorts a list and is unique within an owner. An update keeps the values of the
    fields `kept`.
    """

    key: tuple[str, ...]
    owner: Literal["agent_id", "thread_id", "entity_id"]
    order: tuple[str, ...]
    kept: tuple[str, ...] = ()


class Record:
    """Base of values that are rows of a table of their own, with no rule but their key.

    The journal writes them by the effects `Put`, `Add` and `Delete`, and reads them by `Store.records`.
    """

    __slots__ = ()
    STORED: ClassVar[Stored]


def key_of(record: Record) -> tuple[str, ...]:
    """Return the values of the fields of its key."""
    return tuple([getattr(record, name) for name in record.STORED.key])
