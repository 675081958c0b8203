"""Renderers of shapes: functions from a row to its JSON, compiled from the fields of the shape."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, PlainSerializer
from pydantic.fields import FieldInfo

from toolwright.core.json_value import JSONObject

T = TypeVar("T")

ABSENT = object()
"""Marker of a field that the wire omits if it has no value. All other fields are always present."""

COMPUTED = object()
"""Marker of a field that the class renders itself, in its `of`."""

GIVEN = object()
"""Marker of a field that no row has: an argument of the renderer, with the field's default."""


@dataclass(frozen=True)
class Also:
    """Marker of a field that the wire also has under another name."""

    name: str


@dataclass(frozen=True)
class From:
    """Marker of a field that is another attribute of the row, or computed from it.

    Other fields are attributes of the row with the same name.
    """

    read: str | Callable[[Any], object]


@dataclass(frozen=True)
class WrittenBy:
    """Marker of a value that a function renders. Other values are rendered by their type."""

    write: Callable[[Any], Any]  # JSON


def _itself(row: T) -> T:
    return row


Absent: TypeAlias = Annotated[T | None, ABSENT]

Itself: TypeAlias = Annotated[T, From(_itself)]
"""A field that is the row itself, such as the thread of an answer `{thread}`."""


@cache
def compiled(shape: type[BaseModel]) -> Callable[..., JSONObject]:
    """Return the function that renders a row as the shape, which is as fast as one written by hand."""
    source = _Source()
    for name, info in shape.model_fields.items():
        if COMPUTED not in info.metadata:
            source.add(name, info)
    space: dict[str, Any] = {**source.objects}
    exec(source.text(), space)  # the text consists of field names of our own classes
    render: Callable[..., JSONObject] = space["render"]
    return render


class Renderer:
    """A class attribute that is the compiled function of each shape."""

    def __get__(self, _: object, shape: type[BaseModel]) -> Callable[..., JSONObject]:
        return compiled(shape)


def writer(kind: Any) -> Callable[..., JSONObject]:  # the type of a field's items
    """Return the function that renders values of a shape, or of a shape with a `WrittenBy`."""
    for each in get_args(kind):
        if isinstance(each, WrittenBy):
            return each.write
    return kind.of


@dataclass
class _Source:
    """The source of a renderer: a dict of the leading fields that are always present, then a line for each other."""

    parameters: list[str] = field(default_factory=lambda: ["row"])
    leading: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    objects: dict[str, object] = field(default_factory=dict[str, object])

    def text(self) -> str:
        """Return the source of the function `render`."""
        head = f"def render({', '.join(self.parameters)}):"
        return "\n ".join([head, f"fields = {{{', '.join(self.leading)}}}", *self.lines, "return fields"])

    def add(self, name: str, info: FieldInfo) -> None:
        """Add a field of the shape."""
        names = [info.serialization_alias, *(each.name for each in info.metadata if isinstance(each, Also))]
        value = self._value(name, info)
        if ABSENT in info.metadata:
            kept = value if value.isidentifier() or value.startswith("row.") else "value"
            test = value if kept == value else f"(value := {value})"
            test = f"{test} is not None" if info.default is None else test
            value = self._rendered(kept, _without_none(info.annotation), info.metadata)
            self.lines.append(f"if {test}: {_assigned(names)} = {value}")
            return
        value = self._rendered(value, info.annotation, info.metadata)
        if self.lines:
            self.lines.append(f"{_assigned(names)} = {value}")
        elif len(names) == 1:
            self.leading.append(f"{names[0]!r}: {value}")
        else:
            self.leading += [f"{names[0]!r}: (same := {value})", *(f"{each!r}: same" for each in names[1:])]

    def _value(self, name: str, info: FieldInfo) -> str:
        """Return the expression of the field's value."""
        if GIVEN in info.metadata:
            self.parameters.append(f"{name}={self._named(info.get_default(call_default_factory=True))}")
            return name
        for each in info.metadata:
            if isinstance(each, From):
                if isinstance(each.read, str):
                    return f"row.{each.read}"
                return "row" if each.read is _itself else f"{self._named(each.read)}(row)"
        return f"row.{name}"

    def _rendered(self, value: str, kind: Any, metadata: Iterable[object] = ()) -> str:  # any annotation
        """Return the expression that renders a value of that type."""
        inner = _without_none(kind)
        if inner is not kind:
            rendered = self._rendered("value", inner, metadata)
            return value if rendered == "value" else f"None if (value := {value}) is None else {rendered}"
        for each in metadata:
            if isinstance(each, WrittenBy):
                return f"{self._named(each.write)}({value})"
            if isinstance(each, PlainSerializer) and _is_shape(each.return_type):
                kind = each.return_type
        if get_origin(kind) is Annotated:
            inner, *more = get_args(kind)
            return self._rendered(value, inner, more)
        if get_origin(kind) in (list, tuple):
            item = self._rendered("each", get_args(kind)[0])
            return f"[*{value}]" if item == "each" else f"[{item} for each in {value}]"
        if kind is datetime:
            return f"{value}.isoformat()"
        return f"{self._named(kind.of)}({value})" if _is_shape(kind) else value

    def _named(self, value: object) -> str:
        """Return the name of an object for the source."""
        name = f"object_{len(self.objects)}"
        self.objects[name] = value
        return name


def _assigned(names: Iterable[str | None]) -> str:
    return " = ".join(f"fields[{each!r}]" for each in names)


def _without_none(kind: Any) -> Any:  # any annotation
    """Return the type of the values other than None. Several types are rendered as they are, or by a `WrittenBy`."""
    if get_origin(kind) not in (Union, UnionType) or NoneType not in get_args(kind):
        return kind
    kinds = [each for each in get_args(kind) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else object


def _is_shape(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
