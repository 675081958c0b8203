"""JSON Schema as the structured output of OpenAI and of Anthropic takes it.

A keyword that a provider refuses is told in the description beside it. So a rendering may ask for less than the
schema, by which every answer is validated afterwards.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from toolwright.core.arguments.schema import with_parts
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.tools.compose import closed_form, strict_form

_Takes: TypeAlias = Callable[[str, JSON], bool]
"""Whether a provider takes a keyword with that value."""

_TEXTS = ("title", "description")
_OF_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OF_TYPE: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"format", "pattern"}),
    "integer": _OF_NUMBERS,
    "number": _OF_NUMBERS,
}
_ANYWHERE = frozenset({"type", "enum", "const", "anyOf", "$ref", "$defs", *_TEXTS})
_SILENT = frozenset({"$schema", "$id", "$anchor", "$comment", "definitions", "discriminator"})
"""Keywords that tell a model nothing. Nothing refers to `definitions`, see `_check_reference`."""
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"},
)
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_REFERENCE = re.compile(r"#(/\$defs/[^/]+)?")
_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
MOST_LEVELS = 10  # of objects within objects, in what OpenAI holds a model to
MOST_PROPERTIES = 5_000
MOST_ENUM_VALUES = 1_000


def openai_form(schema: JSONObject) -> JSONObject:
    """The schema in OpenAI's strict dialect, in which every property is required; `without_nulls` reads an answer.

    Raises `DefinitionError` if it cannot be said so.
    """
    rendered = _rendered_object(strict_form(schema), _openai_takes)
    _check_size(rendered)
    return rendered


def anthropic_form(schema: JSONObject) -> JSONObject:
    """The schema in Anthropic's dialect, in which every object is closed.

    Raises `DefinitionError` if it cannot be said so. Schemas that refer to themselves, or have very many optional
    fields, are refused by pydantic-ai before they are sent.
    """
    return _rendered_object(closed_form(schema), _anthropic_takes)


def _openai_takes(keyword: str, value: JSON) -> bool:
    match keyword:
        case "format":
            return value in _FORMATS
        case "pattern":
            return isinstance(value, str) and _LOOKAROUND.search(value) is None
        case "minItems" | "maxItems":
            return True
        case _:
            return keyword in _OF_NUMBERS or _is_shape(keyword)


def _anthropic_takes(keyword: str, value: JSON) -> bool:
    match keyword:
        case "format":
            return value in _FORMATS or value == "uri"
        case "minItems":
            return value in (0, 1)
        case _:
            return _is_shape(keyword)


def _is_shape(keyword: str) -> bool:
    return keyword in _ANYWHERE or keyword in _OF_TYPE["object"] or keyword == "items"


def _rendered(part: JSON, takes: _Takes) -> JSON:
    return _rendered_object(part, takes) if isinstance(part, dict) else part


def _rendered_object(schema: JSONObject, takes: _Takes) -> JSONObject:
    said = {key: each for key, each in schema.items() if takes(key, each)}
    told = {key: each for key, each in schema.items() if key not in said and key not in _SILENT}
    copy = with_parts(said, (), lambda part, _: _rendered(part, takes))
    if told:
        notes = ", ".join(f"{key}: {dumps_unescaped(each)}" for key, each in told.items())
        described = copy.get("description")
        copy["description"] = f"{described} ({notes})" if described else notes
    if "$ref" in copy:
        return _reference(copy)
    return _literals(copy) if "enum" in copy or "const" in copy else _one_type_each(copy)


def _reference(schema: JSONObject) -> JSONObject:
    """A reference, which stands alone: its texts are around it."""
    reference = schema["$ref"]
    if not isinstance(reference, str) or _REFERENCE.fullmatch(reference) is None:
        raise DefinitionError(f"No provider takes the reference {reference!r}.")
    texts: JSONObject = {key: each for key, each in schema.items() if key in _TEXTS}
    if len(texts) + 1 < len(schema):
        raise DefinitionError(f"No provider takes more beside the reference {reference!r}.")
    return {**texts, "anyOf": [{"$ref": reference}]} if texts else schema


def _literals(schema: JSONObject) -> JSONObject:
    """An enum or a const with the type of its values; one of several types is one enum for each."""
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    by_type: dict[str, list[JSON]] = {}
    for value in values if isinstance(values, list) else []:
        if type(value) not in _TYPES:
            raise DefinitionError("No provider takes an enum of objects or lists.")
        by_type.setdefault(_TYPES[type(value)], []).append(value)
    if isinstance(schema.get("type"), str):
        return schema
    if len(by_type) == 1:
        return {**schema, "type": next(iter(by_type))}
    others = {key: each for key, each in schema.items() if key not in ("type", "enum", "const")}
    if not by_type or not others.keys() <= {*_TEXTS}:
        raise DefinitionError("No provider takes more beside an enum of several types.")
    return {**others, "anyOf": [{"type": kind, "enum": each} for kind, each in by_type.items()]}


def _one_type_each(schema: JSONObject) -> JSONObject:
    """Alternatives for a list of types with objects or lists among them: providers document lists of scalars only."""
    kinds = schema.get("type")
    if not isinstance(kinds, list) or "anyOf" in schema or not {"object", "array"} & {*map(str, kinds)}:
        return schema
    around = {key: each for key, each in schema.items() if key in _TEXTS}
    branches: list[JSON] = []
    for kind in map(str, kinds):
        own = _OF_TYPE.get(kind, frozenset())
        branches.append({"type": kind, **{key: each for key, each in schema.items() if key in own}})
    return {**around, "anyOf": branches}


def _check_size(schema: JSONObject) -> None:
    """Raise `DefinitionError` for more than OpenAI takes. Each definition counts by itself there."""
    definitions = schema.get("$defs")
    for part in (schema, *(definitions.values() if isinstance(definitions, dict) else ())):
        parts = [*_parts(part, 0)]
        if max(level for _, level in parts) > MOST_LEVELS:
            raise DefinitionError(f"OpenAI takes objects within objects up to {MOST_LEVELS} levels.")
        if sum(_length(each.get("properties")) for each, _ in parts) > MOST_PROPERTIES:
            raise DefinitionError(f"OpenAI takes up to {MOST_PROPERTIES} properties.")
        if sum(_length(each.get("enum")) for each, _ in parts) > MOST_ENUM_VALUES:
            raise DefinitionError(f"OpenAI takes up to {MOST_ENUM_VALUES} values of enums.")


def _parts(schema: JSON, level: int) -> Iterator[tuple[JSONObject, int]]:
    """The schema and all within it but its definitions, each with the number of objects that it is in."""
    if not isinstance(schema, dict):
        return
    properties, branches = schema.get("properties"), schema.get("anyOf")
    level += isinstance(properties, dict)
    yield schema, level
    for part in (
        *(properties.values() if isinstance(properties, dict) else ()),
        *(branches if isinstance(branches, list) else ()),
        schema.get("items"),
    ):
        yield from _parts(part, level)


def _length(value: JSON) -> int:
    return len(value) if isinstance(value, dict | list) else 0
