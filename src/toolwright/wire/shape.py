"""Wire shapes: base class of the answers that clients read and the OpenAPI document describes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, TypeVar

import pydantic
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from toolwright.core.errors import BadAnswer
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import sentence
from toolwright.wire.rendering import ABSENT, Also, Renderer

T = TypeVar("T")


def _describe(schema: dict[str, Any], shape: type[pydantic.BaseModel]) -> None:
    """Adapt the schema for the document.

    Fields that are always present are required, even if older servers omit them.
    """
    schema["description"] = schema.get("description", "").partition("\n\n")[0]
    written: dict[str, Any] = {}
    required: list[str] = []
    for field in shape.model_fields.values():
        alias = field.serialization_alias or ""
        names = [alias, *(each.name for each in field.metadata if isinstance(each, Also))]
        if ABSENT not in field.metadata:
            required += names
        described = schema["properties"][alias]
        described.pop("default", None)
        kinds = [kind for kind in described.get("anyOf", [described]) if kind != {"type": "null"}]
        if len(kinds) == 1 and "$ref" in kinds[0]:
            described.pop("title", None)  # the referenced schema has one
        for name in names:
            written[name] = described | ({"title": name.title()} if "title" in described else {})
    schema["properties"] = written
    schema.pop("required", None)
    if required:
        schema["required"] = required


class Shape(pydantic.BaseModel):
    """Immutable part of an answer, camelCase on the wire. Unknown fields, of newer servers, are ignored.

    A default is for a client whose server is older than the field. The OpenAPI document uses the first paragraph of the
    docstring as the description, and `title` as the name.
    """

    model_config = pydantic.ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,  # in programs, and their tests
        extra="ignore",
        frozen=True,
        defer_build=True,
        json_schema_extra=_describe,
    )

    if TYPE_CHECKING:

        @classmethod
        def of(cls, row: Any, **given: Any) -> JSONObject:  # any row with the attributes that the fields name
            """Render a row. `given` are the fields marked `GIVEN`. A class overrides this to add computed fields."""
            ...

    else:
        of: ClassVar = Renderer()


def wire_name(name: str, *older: str) -> Any:  # the type of pydantic's Field()
    """Return a field with that name on the wire; older servers' names are accepted in answers."""
    return pydantic.Field(validation_alias=pydantic.AliasChoices(name, *older), serialization_alias=name)


def documented_as(kind: Any) -> pydantic.PlainSerializer:  # any type that pydantic supports
    """Return the marker of a field that the OpenAPI document describes as `kind`, whatever type the client reads."""
    return pydantic.PlainSerializer(_same, return_type=kind)


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, eq=False)
class _ReadAs:
    """Marker of a field that is read by `schema`, without validating parsed JSON again."""

    schema: CoreSchema

    def __get_pydantic_core_schema__(self, _: object, __: pydantic.GetCoreSchemaHandler) -> CoreSchema:
        return self.schema.copy()  # pydantic modifies it


if TYPE_CHECKING:
    Json: TypeAlias = JSON
    JsonObject: TypeAlias = JSONObject
else:  # without the recursion: pydantic would look for `JSON` in the module of each shape
    Json = Annotated[object, _ReadAs(core_schema.any_schema()), documented_as(pydantic.JsonValue)]
    JsonObject = Annotated[
        dict, _ReadAs(core_schema.is_instance_schema(dict)), documented_as(dict[str, pydantic.JsonValue])
    ]


Path = tuple[int | str, ...]


def read(kind: type[T], answer: JSON) -> T:
    """Return the answer as a value of that shape. Unknown fields are ignored. Raises `BadAnswer`."""
    try:
        return _adapter(kind).validate_python(answer)
    except pydantic.ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[0]
        raise _unreadable(kind, details["loc"], details["msg"]) from None


def read_field(kind: type[T], answer: JSON, name: str) -> T:
    """Return one field of an answer, such as `thread` of `{"thread": {…}}`, as a value of that shape."""
    return read(kind, _field(answer, name))


class Items(list[T]):
    """The items of a list.

    `more` is true if the page ended early because its items are large: further items can follow the last one.
    """

    def __init__(self, items: Iterable[T] = (), *, more: bool = False) -> None:
        super().__init__(items)
        self.more = more


def read_list(kind: type[T], answer: JSON, name: str) -> Items[T]:
    """Read a list of an answer: `{"threads": […]}`."""
    more = isinstance(answer, dict) and answer.get("more") is True
    return Items(_read_items(kind, _field(answer, name), name), more=more)


def _read_items(kind: type[T], items: JSON, name: str) -> list[T]:
    if not isinstance(items, list):
        raise BadAnswer(f"The server's answer has no list {name!r}.")
    return [read(kind, item) for item in items]


def _field(answer: JSON, name: str) -> JSON:
    if not isinstance(answer, dict) or name not in answer:
        raise BadAnswer(f"The server's answer has no {name!r}.")
    return answer[name]


@cache
def _adapter(kind: type[T]) -> pydantic.TypeAdapter[T]:
    return pydantic.TypeAdapter(kind)


def _unreadable(kind: type[object], path: Path, why: str) -> BadAnswer:
    where = f" at {'.'.join(map(str, path))}" if path else ""
    return BadAnswer(
        sentence(f"The server's answer is not a {kind.__name__} that this client knows{where}: {why}")
    )
