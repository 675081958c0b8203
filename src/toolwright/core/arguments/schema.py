"""JSON Schema validators: compiled once, without fetching references."""

from collections.abc import Callable, Iterator

import jsonschema_rs

from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import Path, spell
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
