"""Numbers by schema: `3.0` becomes the integer 3, numbers out of range are rejected; with a compiled check."""

import math
from collections.abc import Callable
from typing import TypeAlias

import jsonschema_rs

from toolwright.core.arguments.errors import OUT_OF_RANGE, FieldError, InvalidArguments
from toolwright.core.arguments.schema import Subschema, Subschemas, item_of, members_of, property_of
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import Path


def normalize(subschemas: Subschemas, value: JSONObject) -> JSONObject:
    """Return a validated value with its numbers in the form that the schema requires.

    The schema has accepted the value, so a position of type `integer` holds a whole number. If there are several
    alternatives, the first one that accepts the value unchanged applies, or the first that accepts it if none does.
    Raises `InvalidArguments` for a number that no float can hold.
    """
    normal = _Normalization(subschemas).at(value, (subschemas.root, "#"), ())
    assert isinstance(normal, dict), "an object stays one"
    return normal


class _Normalization:
    """Normalization of one value. Each part of the value is visited once for each position of the schema."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._done: dict[
            tuple[int, str], tuple[JSON, JSON]
        ] = {}  # the parts are kept, so that their ids are not reused

    def at(self, value: JSON, place: Subschema, path: Path) -> JSON:
        """Return the value as the schema at this position requires it; the same object if nothing changes."""
        schema, pointer = place
        if not isinstance(schema, dict) or not isinstance(value, int | float | dict | list) or value is True:
            return value
        key = (id(value), pointer)
        if key in self._done:
            return self._done[key][1]
        self._done[key] = (value, value)  # ends the recursion of a self-reference
        normal = self._by_own_keywords(self._elsewhere(value, schema, pointer, path), schema, pointer, path)
        self._done[key] = (value, normal)
        return normal

    def _elsewhere(self, value: JSON, schema: JSONObject, pointer: str, path: Path) -> JSON:
        """Normalize by the schemas to which this one refers."""
        target = self._subschemas.resolve(schema.get("$ref"))
        if target is not None:
            value = self.at(value, target, path)
        for member in members_of(schema, pointer, "allOf"):
            value = self.at(value, member, path)
        for alternatives in ("anyOf", "oneOf"):
            value = self._chosen(value, members_of(schema, pointer, alternatives), path)
        return value

    def _chosen(self, value: JSON, members: list[Subschema], path: Path) -> JSON:
        first: list[JSON] = []
        last_error: InvalidArguments | None = None
        for member in members:
            if not self._subschemas.accepts(member[1], value):
                continue
            try:
                normal = self.at(value, member, path)
            except InvalidArguments as error:
                last_error = last_error or error
                continue
            if normal is value:
                return value
            first.append(normal)
        if last_error is not None and not first:
            raise last_error
        return first[0] if first else value

    def _by_own_keywords(self, value: JSON, schema: JSONObject, pointer: str, path: Path) -> JSON:
        """Normalize by the schema's own keywords."""
        match value:
            case bool():
                return value
            case int() | float():
                return _number(value, schema, path)
            case dict():
                items = {
                    name: self.at(item, property_of(schema, pointer, name), (*path, name))
                    for name, item in value.items()
                }
                return items if any(items[name] is not item for name, item in value.items()) else value
            case list():
                listed = [
                    self.at(item, item_of(schema, pointer, index), (*path, index))
                    for index, item in enumerate(value)
                ]
                return (
                    listed if any(new is not old for new, old in zip(listed, value, strict=True)) else value
                )
            case _:
                return value


def _number(value: float, schema: JSONObject, path: Path) -> JSON:
    types = types_of(schema)
    if "integer" in types and "number" not in types:
        return int(value) if isinstance(value, float) and is_whole_number(value) else value
    if "number" in types and "integer" not in types and isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise InvalidArguments([FieldError(path, OUT_OF_RANGE)]) from None
    return value


def is_whole_number(value: float) -> bool:
    """Return whether a number has no fraction."""
    return isinstance(value, int) or (math.isfinite(value) and value.is_integer())


def types_of(schema: JSONObject) -> list[str]:
    """Return the types that a schema allows. Whole constants (`const`, `enum`) count as integers."""
    declared = schema.get("type")
    names = (
        [declared]
        if isinstance(declared, str)
        else [n for n in declared if isinstance(n, str)]
        if isinstance(declared, list)
        else []
    )
    options = schema.get("enum")
    constants = [*(options if isinstance(options, list) else []), schema.get("const")]
    if any(type(constant) is int for constant in constants) and "number" not in names:
        names = [*names, "integer"]
    return names


NumberCheck: TypeAlias = Callable[[JSON], bool]

_LEVELS = 6
"""Levels of a value that are checked where the schema does not constrain it; deeper values are checked in Python."""

_DEEPEST = 32
"""Levels of a schema that are followed; together with `_LEVELS` far less than `MAX_NESTING`."""

_MOST_PARTS = 2_000
"""Maximum number of schema parts examined, counting a referenced part each time; a larger schema has no check."""

_OWN = frozenset(
    {"type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems", "allOf"}
)
_ENTANGLED = frozenset({"allOf", "patternProperties", "prefixItems"})
_ELSEWHERE = ("$ref", "anyOf", "oneOf")
_ANYTHING: JSONObject = {}
_OTHERS: list[JSON] = ["null", "string", "boolean", "array", "object"]
_FINITE: JSONObject = {"type": ["number", *_OTHERS], "minimum": -(2**63), "maximum": 2**63 - 1}
"""Numbers compared with 64-bit integers, ten times faster than with others; infinity has no type."""
_WHOLE: JSONObject = {"type": ["integer", *_OTHERS]}
_SCALARS: dict[JSON, JSONObject] = {
    "string": _ANYTHING,  # not a number, because the schema has accepted the value
    "boolean": _ANYTHING,
    "null": _ANYTHING,
    "integer": _WHOLE,
    "number": _FINITE,
}
_ANY_FLOAT, _NO_FLOAT = "any-float", "no-float"


def compile_number_check(subschemas: Subschemas) -> NumberCheck:
    """Return a check of valid values: whether `normalize` would leave them unchanged.

    It can return a false negative, never a false positive. It returns false for numbers out of range, for values
    nested too deep, and always for a very large schema.
    """
    compiler = _Compiler(subschemas)
    try:
        place = compiler.at(subschemas.root, 0)
    except _TooLarge:
        return _never
    levels = {**_levels(_ANY_FLOAT, _FINITE), **_levels(_NO_FLOAT, {**_FINITE, **_WHOLE})}
    check: JSONObject = {"allOf": [place], "definitions": levels}
    # The only draft in which `3.0` is not an integer.
    return jsonschema_rs.Draft4Validator(check).is_valid


def _levels(name: str, numbers: JSONObject) -> JSONObject:
    """Return definitions of JSON by depth, with such numbers as scalars: `name-0` to `name-6`."""
    levels: JSONObject = {f"{name}-0": {**numbers, "maxItems": 0, "maxProperties": 0}}
    for level in range(1, _LEVELS + 1):
        below: JSON = {"$ref": f"#/definitions/{name}-{level - 1}"}
        levels[f"{name}-{level}"] = {**numbers, "items": below, "additionalProperties": below}
    return levels


class _TooLarge(Exception):
    """The schema has more parts than the check supports."""


def _never(_: JSON) -> bool:
    return False


class _Compiler:
    """Compiles the checks of a schema's positions, as schemas of their own."""

    def __init__(self, subschemas: Subschemas) -> None:
        self._subschemas = subschemas
        self._parts = _MOST_PARTS

    def at(self, schema: JSON, level: int) -> JSONObject:
        """Return the check of one position, at that depth."""
        self._count()
        if schema is False:
            return _ANYTHING  # no value is accepted here
        if not isinstance(schema, dict) or level >= _DEEPEST:
            return self._any(schema)
        kind = schema.get("type")
        if any(name in schema for name in _ELSEWHERE):
            return self._referred(schema, level)
        if not isinstance(kind, str) or not _ENTANGLED.isdisjoint(schema):
            return self._any(schema)
        if kind == "object":
            return self._object(schema, level + 1)
        if kind == "array":
            items = self.at(schema.get("items"), level + 1)
            return {"items": items} if items else _ANYTHING
        scalar = _SCALARS.get(kind)
        return self._any(schema) if scalar is None else scalar

    def _referred(self, schema: JSONObject, level: int) -> JSONObject:
        """Return the check of a position with only a reference, possibly with null; otherwise a check of any JSON."""
        names = [name for name in _ELSEWHERE if name in schema]
        if len(names) > 1 or not _OWN.isdisjoint(schema):
            return self._any(schema)
        if names == ["$ref"]:
            target = self._subschemas.resolve(schema["$ref"])
            return self._any(schema) if target is None else self.at(target[0], level + 1)
        members = schema[names[0]]
        others = [each for each in members if each != {"type": "null"}] if isinstance(members, list) else []
        return self.at(others[0], level + 1) if len(others) == 1 else self._any(schema)

    def _object(self, schema: JSONObject, level: int) -> JSONObject:
        properties = schema.get("properties")
        members = properties.items() if isinstance(properties, dict) else ()
        checks: JSONObject = {name: self.at(each, level) for name, each in members}
        others = self.at(schema.get("additionalProperties"), level)
        if others:
            return {"properties": checks, "additionalProperties": others}
        checks = {name: check for name, check in checks.items() if check}
        return {"properties": checks} if checks else _ANYTHING

    def _any(self, schema: JSON) -> JSONObject:
        """Return a check of any JSON: it finds no float where the schema could require an integer."""
        name = _NO_FLOAT if self._has_integers(schema) else _ANY_FLOAT
        return {"$ref": f"#/definitions/{name}-{_LEVELS}"}

    def _has_integers(self, schema: JSON) -> bool:
        """Return whether an integer is required anywhere in the schema, or in a schema to which it refers."""
        visited: set[int] = set()
        parts = [schema]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
            elif isinstance(part, dict) and id(part) not in visited:
                self._count()
                visited.add(id(part))
                if "integer" in types_of(part):
                    return True
                parts += part.values()
                target = self._subschemas.resolve(part.get("$ref"))
                if target is not None:
                    parts.append(target[0])
        return False

    def _count(self) -> None:
        self._parts -= 1
        if self._parts < 0:
            raise _TooLarge
