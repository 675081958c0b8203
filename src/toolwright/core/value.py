"""Base of all values: immutable, keyword-only, cheap to create. Records: values with a table (decision 4)."""

from collections.abc import Callable
from dataclasses import Field, fields, make_dataclass
from dataclasses import field as dataclass_field
from functools import cache
from inspect import get_annotations
from typing import Any, ClassVar, TypeVar, dataclass_transform

from msgspec import NODEFAULT, Struct, StructMeta, field
from msgspec.structs import replace
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class ValueMeta(StructMeta):
    """Makes each subclass of `Value` frozen and its fields keyword-only."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "ValueMeta":
        """Create the class, with the options of `msgspec.Struct`."""
        return super().__new__(cls, name, bases, namespace, frozen=True, kw_only=True, **options)


class _DataclassFields:
    """The fields as those of a dataclass, for `dataclasses.replace`, `asdict` and pydantic."""

    def __get__(self, _: object, owner: type[Struct]) -> "dict[str, Field[object]]":
        own: dict[str, Field[object]] = vars(_dataclass(owner))["__dataclass_fields__"]
        return own


@cache
def _dataclass(cls: type[Struct]) -> type[Any]:
    """Return a dataclass with the fields of the class. It is created only where a value is used as a dataclass."""
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    types: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        types |= get_annotations(base)
    parts = [(name, types[name], _dataclass_field(given.get(name, NODEFAULT))) for name in names]
    made = make_dataclass(cls.__name__, parts, namespace={"__doc__": cls.__doc__}, frozen=True, kw_only=True)
    made.__module__ = cls.__module__  # where names in annotations are looked up
    return made


def _dataclass_field(default: Any) -> Any:  # any value; a field, as `dataclasses.field` types it
    if default is NODEFAULT:
        return dataclass_field()
    factory = getattr(default, "factory", None)  # how msgspec wraps a `default_factory`
    return dataclass_field(default=default) if factory is None else dataclass_field(default_factory=factory)


class Value(Struct, metaclass=ValueMeta, gc=False):
    """A value: frozen, keyword-only, hashable and comparable by its fields.

    The garbage collector does not traverse values: a journal in memory holds many, and it would free none of them. A
    class whose fields can refer back to it, as services, tools and a user's objects can, is declared with `gc=True`.
    """

    __dataclass_fields__: ClassVar[Any] = _DataclassFields()

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a dataclass with these fields: values can be parameters, outputs and parts of models."""
        plain = _dataclass(cls)
        schema = handler.generate_schema(plain)

        def convert(given: object, validate: Callable[[object], object]) -> object:
            return given if isinstance(given, cls) else cls(**_parts(cls, validate(given)))

        def revert(given: object) -> object:
            return plain(**_parts(cls, given))

        return core_schema.no_info_wrap_validator_function(
            convert,
            schema,
            serialization=core_schema.plain_serializer_function_ser_schema(revert, return_schema=schema),
        )


def _parts(cls: type[Struct], given: object) -> dict[str, Any]:
    return {name: getattr(given, name) for name in cls.__struct_fields__}


def changed(old: T, /, **new: object) -> T:
    """Return a copy of a value or a dataclass with these fields changed. `__post_init__` checks the copy as well."""
    if isinstance(old, Struct):
        return replace(old, **new)
    names = [field.name for field in fields(old)]  # type: ignore[arg-type]  # a dataclass
    unknown = new.keys() - {*names}
    if unknown:
        raise TypeError(f"{type(old).__name__} has no field {unknown.pop()!r}.")
    made = object.__new__(type(old))
    for name in names:
        object.__setattr__(made, name, new[name] if name in new else getattr(old, name))
    check = getattr(made, "__post_init__", None)
    if check is not None:
        check()
    return made


class Stored(Value):
    """Storage of the records of a class. All names are fields, each with a column of that name.

    `key` identifies a record. `owner` is the id of the row to which it belongs, such as an agent, a thread or a space:
    records are listed by it, and deleted with it. `order` sorts a list and is unique within an owner. An update keeps
    the values of the fields `kept`. No two records have the same value of a field in `unique`, except None.
    """

    key: tuple[str, ...]
    owner: str = ""
    order: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()


class Record(Value):
    """Base of values that are rows of a table of their own, which row operations read and write (decision 46).

    A class without a rule is written by the operations `Put`, `Add` and `Delete` alone, and read by `Store.records`.
    """

    STORED: ClassVar[Stored]


def owned_by(owner: str) -> list[type[Record]]:
    """Return the classes of records that are listed by that field, and deleted with the row that it names."""
    kinds = Record.__subclasses__()
    return [kind for kind in kinds if kind.STORED.owner == owner and kind.STORED.order]


def key_of(record: Record) -> tuple[str, ...]:
    """Return the values of the fields of its key."""
    return tuple([getattr(record, name) for name in record.STORED.key])
