"""Shapes on the wire: each class is what a client reads, and what the OpenAPI document says of it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    PlainSerializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from toolwright.core.json_value import JSON, JSONObject

T = TypeVar("T")


@dataclass(frozen=True)
class Also:
    """Another name under which the wire shows the same field."""

    name: str


ABSENT = object()
"""The mark of a field that the wire leaves out where there is nothing to show. All others are always there."""

Absent: TypeAlias = Annotated[T | None, ABSENT]


def _describe(schema: dict[str, Any], shape: type[BaseModel]) -> None:
    """The schema as the document has it: what is always there is required, whatever older servers leave out."""
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
            described.pop("title", None)  # what it refers to has one
        for name in names:
            written[name] = described | ({"title": name.title()} if "title" in described else {})
    schema["properties"] = written
    schema.pop("required", None)
    if required:
        schema["required"] = required


class Shape(BaseModel):
    """A part of an answer: camelCase, never to be changed; fields that are not known yet are passed over.

    A default is for a client whose server is older than the field. The document takes the first paragraph of the
    docstring, and the `title` as its name.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,  # in programs, and their tests
        extra="ignore",
        frozen=True,
        defer_build=True,
        json_schema_extra=_describe,
    )


def spelt(name: str, *older: str) -> Any:  # what pydantic gives for a field
    """The mark of a field that the wire calls by that name, or by those in answers that are missing it."""
    return Field(validation_alias=AliasChoices(name, *older), serialization_alias=name)


def documented(kind: Any) -> PlainSerializer:  # a type, as pydantic takes it
    """The mark of a field that the document describes as that type, and a client reads in its own way."""
    return PlainSerializer(_same, return_type=kind)


def _same(value: object) -> object:
    return value


@dataclass(frozen=True, eq=False)
class _ReadAs:
    """Reads a field as that schema says: JSON comes from a parser, and is not looked through again."""

    schema: CoreSchema

    def __get_pydantic_core_schema__(self, _: object, __: GetCoreSchemaHandler) -> CoreSchema:
        return self.schema.copy()  # pydantic writes into it


if TYPE_CHECKING:
    Json: TypeAlias = JSON
    JsonObject: TypeAlias = JSONObject
else:  # without the recursion: pydantic would look for `JSON` in the module of each shape
    Json = Annotated[object, _ReadAs(core_schema.any_schema()), documented(JsonValue)]
    JsonObject = Annotated[
        dict, _ReadAs(core_schema.is_instance_schema(dict)), documented(dict[str, JsonValue])
    ]
