"""The check that the numbers of arguments are in their form, in compiled code: what passes needs no second look."""

from collections.abc import Callable
from typing import TypeAlias

import jsonschema_rs

from toolwright.core.arguments.numbers import Numbers, types_of
from toolwright.core.json_value import JSON, JSONObject

NumberCheck: TypeAlias = Callable[[JSON], bool]

_LEVELS = 6
"""Levels of a value whose places no schema tells apart; a deeper one is looked at in Python."""

_DEEPEST = 32
"""Levels of a schema that are followed: with those above far less than `MAX_NESTING`."""

_MOST_PARTS = 2_000
"""Parts of a schema that are looked at, those that it refers to each time; the rare larger one has no check."""

_OWN = frozenset(
    {"type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems", "allOf"}
)
_ENTANGLED = frozenset({"allOf", "patternProperties", "prefixItems"})
_ELSEWHERE = ("$ref", "anyOf", "oneOf")
_ANYTHING: JSONObject = {}
_OTHERS: list[JSON] = ["null", "string", "boolean", "array", "object"]
_FINITE: JSONObject = {"type": ["number", *_OTHERS], "minimum": -(2**63), "maximum": 2**63 - 1}
"""Numbers that are compared with whole ones of 64 bits, at a tenth of what others cost; infinity has no type."""
_WHOLE: JSONObject = {"type": ["integer", *_OTHERS]}
_SCALARS: dict[JSON, JSONObject] = {
    "string": _ANYTHING,  # the schema has accepted the value: it is no number
    "boolean": _ANYTHING,
    "null": _ANYTHING,
    "integer": _WHOLE,
    "number": _FINITE,
}
_ANY_FLOAT, _NO_FLOAT = "any-float", "no-float"


def compile_number_check(schema: JSONObject, numbers: Numbers) -> NumberCheck:
    """A check of values that the schema accepts: whether `Numbers` would leave them as they are.

    It may say no of one that is right, never yes of one that is not: not of one with a number out of range, nor of
    one that is nested too deep. Of a very large schema it always says no.
    """
    compiler = _Compiler(numbers)
    try:
        place = compiler.at(schema, 0)
    except _TooLarge:
        return _never
    levels = {**_levels(_ANY_FLOAT, _FINITE), **_levels(_NO_FLOAT, {**_FINITE, **_WHOLE})}
    check: JSONObject = {"allOf": [place], "definitions": levels}
    # Of the drafts this one alone takes `3.0` for no integer.
    return jsonschema_rs.Draft4Validator(check).is_valid


def _levels(name: str, numbers: JSONObject) -> JSONObject:
    """Definitions of JSON that is nested so deep, whose numbers are such: `name-0` to `name-6`."""
    levels: JSONObject = {f"{name}-0": {**numbers, "maxItems": 0, "maxProperties": 0}}
    for level in range(1, _LEVELS + 1):
        below: JSON = {"$ref": f"#/definitions/{name}-{level - 1}"}
        levels[f"{name}-{level}"] = {**numbers, "items": below, "additionalProperties": below}
    return levels


class _TooLarge(Exception):
    """More parts than are worth to be looked at."""


def _never(_: JSON) -> bool:
    return False


class _Compiler:
    """The checks of one schema's places, as schemas of their own."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._parts = _MOST_PARTS

    def at(self, schema: JSON, level: int) -> JSONObject:
        """The check of one place, so many levels down."""
        self._count()
        if schema is False:
            return _ANYTHING  # nothing is accepted here
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
        """The check of a place that only refers to another one, or takes null beside it; else of any JSON."""
        names = [name for name in _ELSEWHERE if name in schema]
        if len(names) > 1 or not _OWN.isdisjoint(schema):
            return self._any(schema)
        if names == ["$ref"]:
            target = self._numbers.resolve(schema["$ref"])
            return self._any(schema) if target is None else self.at(target[0], level + 1)
        members = schema[names[0]]
        others = [each for each in members if each != {"type": "null"}] if isinstance(members, list) else []
        return self.at(others[0], level + 1) if len(others) == 1 else self._any(schema)

    def _object(self, schema: JSONObject, level: int) -> JSONObject:
        properties = schema.get("properties")
        named = properties.items() if isinstance(properties, dict) else ()
        checks: JSONObject = {name: self.at(each, level) for name, each in named}
        others = self.at(schema.get("additionalProperties"), level)
        if others:
            return {"properties": checks, "additionalProperties": others}
        checks = {name: check for name, check in checks.items() if check}
        return {"properties": checks} if checks else _ANYTHING

    def _any(self, schema: JSON) -> JSONObject:
        """The check of JSON whose places are not told apart: no float where an integer may be asked for."""
        name = _NO_FLOAT if self._has_integers(schema) else _ANY_FLOAT
        return {"$ref": f"#/definitions/{name}-{_LEVELS}"}

    def _has_integers(self, schema: JSON) -> bool:
        """Return whether an integer is asked for anywhere within the schema, or where it refers to."""
        seen: set[int] = set()
        parts = [schema]
        while parts:
            part = parts.pop()
            if isinstance(part, list):
                parts += part
            elif isinstance(part, dict) and id(part) not in seen:
                self._count()
                seen.add(id(part))
                if "integer" in types_of(part):
                    return True
                parts += part.values()
                target = self._numbers.resolve(part.get("$ref"))
                if target is not None:
                    parts.append(target[0])
        return False

    def _count(self) -> None:
        self._parts -= 1
        if self._parts < 0:
            raise _TooLarge
