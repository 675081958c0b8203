"""JSON Schemas: compiled once without fetching references, rewritten, and their parts."""

from collections.abc import Callable, Iterator
from typing import TypeAlias
from urllib.parse import quote, unquote

import jsonschema_rs

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject, Path, spell
from toolwright.core.text import brief, sentence

_MOST_WHY = 500  # maximum characters of a reason
_MOST_PLACE = 200  # maximum characters of a path, or of a name
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$schema"})


class InvalidSchema(Exception):
    """An invalid schema: the `path` of the error, empty if unknown, and a short reason."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = brief(why, _MOST_WHY).rstrip(".")
        place = brief(spell(path), _MOST_PLACE)
        super().__init__(f"{place}: {self.why}" if place else self.why)


def compile_schema(schema: JSONObject, name: str) -> jsonschema_rs.Validator:
    """Return a validator that never fetches references. Raises `DefinitionError` for an invalid schema.

    `name` is the tool's name for the error message, which contains the path. Formats are validated too.
    """
    try:
        return _compiled(schema, formats=True)
    except InvalidSchema as error:
        quoted = brief(repr(name), _MOST_PLACE)
        raise DefinitionError(
            sentence(f"Tool {quoted}: its parameters are not a valid JSON Schema: {error}")
        ) from error


def compile_promise(schema: JSONObject) -> jsonschema_rs.Validator:
    """Return a validator of results for a third-party schema, such as an MCP server's. Raises `InvalidSchema`.

    Its `format` keywords are annotations only.
    """
    return _compiled(schema, formats=False)


def _compiled(schema: JSONObject, *, formats: bool) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(schema, offline=True, validate_formats=formats)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        why = getattr(error, "message", None) or str(error).split("\n")[0]
        path: Path = tuple(getattr(error, "instance_path", ())) or _referring(schema, why)
        raise InvalidSchema(path, why) from error


def _referring(schema: JSON, why: str) -> Path:
    """Return the path of the first reference or dialect that an error names, or an empty path."""
    waiting: list[tuple[JSON, Path]] = [(schema, ())]
    while waiting:
        part, path = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, (*path, index)) for index, each in enumerate(part)]
        elif isinstance(part, dict):
            for key in _REFERENCES & part.keys():
                reference = part[key]
                if isinstance(reference, str) and (target := reference.strip("#")) and target in why:
                    return (*path, key)
            waiting += [(each, (*path, key)) for key, each in part.items()]
    return ()


def closed(schema: JSON) -> JSON:
    """Return a pydantic schema without titles, whose objects allow no unknown properties.

    Only subschemas are changed: a property called `title` is kept.
    """
    if not isinstance(schema, dict):
        return schema
    copy = with_parts(
        {key: value for key, value in schema.items() if key not in _NOISE}, (), lambda part, _: closed(part)
    )
    if copy.get("type") == "object" and "additionalProperties" not in copy:
        copy["additionalProperties"] = False
    return copy


def with_definitions(schema: JSONObject, definitions: JSON) -> JSONObject:
    """Return the schema with only those definitions that it refers to, directly or indirectly."""
    if not isinstance(definitions, dict):
        return schema
    used: set[str] = set()
    pending: list[JSON] = [schema]
    while pending:
        names = set(_referred(pending.pop())) & definitions.keys() - used
        used |= names
        pending += [definitions[name] for name in names]
    if not used:
        return schema
    return {**schema, "$defs": {name: each for name, each in definitions.items() if name in used}}


def _referred(schema: JSON) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to directly."""
    parts: list[JSON] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
            reference = part.get("$ref")
            if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
                yield reference[len(_DEFINITIONS) :]


_DEFINITIONS = "#/$defs/"
_NOISE = frozenset({"title", "discriminator"})
_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset(
    {
        "items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else",
        "propertyNames", "contains", "contentSchema",
    }
)  # fmt: skip


def with_parts(schema: JSONObject, path: Path, change: Callable[[JSON, Path], JSON]) -> JSONObject:
    """Return a copy in which each direct subschema is replaced by `change(subschema, path)`."""
    return {key: _inside(key, value, (*path, key), change) for key, value in schema.items()}


def _inside(key: str, value: JSON, path: Path, change: Callable[[JSON, Path], JSON]) -> JSON:
    if key in _MAPS and isinstance(value, dict):
        return {name: change(schema, (*path, name)) for name, schema in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [change(schema, (*path, number)) for number, schema in enumerate(value)]
    return change(value, path) if key in _SINGLE else value


_ROOT = "json://toolwright.invalid/schema"
"""Base URI of the schema's own references. Its host and path allow resolving a relative `$id`."""
Subschema: TypeAlias = tuple[JSON, str]
"""A subschema, and the pointer to it (`#/properties/a`)."""


class Subschemas:
    """The parts of a schema: the targets of its references, and validators of its parts, compiled when needed."""

    def __init__(self, root: JSONObject) -> None:
        self.root = root
        self._registry: jsonschema_rs.Registry | None = None
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def resolve(self, reference: JSON) -> Subschema | None:
        """Return the target of a local reference, or None."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        place: JSON = self.root
        for step in filter(None, unquote(reference[1:]).split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, dict):
                place = place.get(name)
            elif isinstance(place, list):
                place = place[int(name)] if name.isdecimal() and int(name) < len(place) else None
            else:
                return None
        return (place, reference) if isinstance(place, dict) else None

    def accepts(self, pointer: str, value: JSON) -> bool:
        """Return whether the schema at that position accepts the value."""
        validator = self._validators.get(pointer)
        if validator is None:
            self._registry = self._registry or jsonschema_rs.Registry([(_ROOT, self.root)])
            schema: JSONObject = {"$ref": _ROOT + pointer}
            if "$schema" in self.root:
                schema["$schema"] = self.root["$schema"]
            validator = jsonschema_rs.validator_for(
                schema, registry=self._registry, offline=True, validate_formats=True
            )
            self._validators[pointer] = validator
        return validator.is_valid(value)


def members_of(schema: JSONObject, pointer: str, keyword: str) -> list[Subschema]:
    """Return the schemas in the list of a keyword such as `anyOf`."""
    listed = schema.get(keyword)
    if not isinstance(listed, list):
        return []
    return [(each, f"{pointer}/{keyword}/{index}") for index, each in enumerate(listed)]


def property_of(schema: JSONObject, pointer: str, name: str) -> Subschema:
    """Return the schema of an object's property, by its name or that of all others."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        step = quote(name.replace("~", "~0").replace("/", "~1"), safe="~")
        return properties[name], f"{pointer}/properties/{step}"
    return schema.get("additionalProperties"), f"{pointer}/additionalProperties"


def item_of(schema: JSONObject, pointer: str, index: int) -> Subschema:
    """Return the schema of a list's item."""
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index], f"{pointer}/prefixItems/{index}"
    return schema.get("items"), f"{pointer}/items"
