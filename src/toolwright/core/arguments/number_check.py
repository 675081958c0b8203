"""The check that the numbers of arguments are in their form, in compiled code: what passes needs no second look."""

from collections.abc import Callable
from typing import TypeAlias

from pydantic_core import CoreSchema, SchemaValidator, core_schema

from toolwright.core.arguments.numbers import Numbers, types_of
from toolwright.core.json_value import JSON, NUMBERS, JSONObject, json_levels

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
_ANY_FLOAT, _NO_FLOAT = "any-float", "no-float"
_SCALARS: dict[JSON, CoreSchema] = {
    "string": core_schema.any_schema(),  # the schema has accepted the value: it is no number
    "boolean": core_schema.any_schema(),
    "null": core_schema.any_schema(),
    "integer": core_schema.int_schema(strict=True),
    "number": core_schema.float_schema(strict=True, allow_inf_nan=False),
}


def compile_number_check(schema: JSONObject, numbers: Numbers) -> NumberCheck:
    """What tells of a value that the schema accepts whether `Numbers` would leave it as it is.

    It may say no of one that is right, never yes of one that is not: not of one with a number out of range, nor of
    one that is nested too deep. Of a very large schema it always says no.
    """
    compiler = _Compiler(numbers)
    try:
        place = compiler.at(schema, 0)
    except _TooLarge:
        return _never
    definitions = (
        [
            *json_levels(_ANY_FLOAT, _LEVELS),
            *json_levels(_NO_FLOAT, _LEVELS, {int: NUMBERS[int]}),
        ]
        if compiler.refers
        else []
    )
    return SchemaValidator(core_schema.definitions_schema(place, definitions)).isinstance_python


class _TooLarge(Exception):
    """More parts than are worth to be looked at."""


def _never(_: JSON) -> bool:
    return False


class _Compiler:
    """The checks of one schema's places; `refers` tells whether some of them stand for any JSON."""

    def __init__(self, numbers: Numbers) -> None:
        self.refers = False
        self._numbers = numbers
        self._parts = _MOST_PARTS

    def at(self, schema: JSON, level: int) -> CoreSchema:
        """The check of one place, so many levels down."""
        self._count()
        if schema is False:
            return core_schema.any_schema()  # nothing is accepted here
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
            return core_schema.list_schema(self.at(schema.get("items"), level + 1))
        return _SCALARS.get(kind) or self._any(schema)

    def _referred(self, schema: JSONObject, level: int) -> CoreSchema:
        """The check of a place that only refers to another one, or takes null beside it; else of any JSON."""
        names = [name for name in _ELSEWHERE if name in schema]
        if len(names) > 1 or not _OWN.isdisjoint(schema):
            return self._any(schema)
        if names == ["$ref"]:
            target = self._numbers.resolve(schema["$ref"])
            return self._any(schema) if target is None else self.at(target[0], level + 1)
        members = schema[names[0]]
        others = [each for each in members if each != {"type": "null"}] if isinstance(members, list) else []
        if len(others) != 1:
            return self._any(schema)
        return core_schema.nullable_schema(self.at(others[0], level + 1))

    def _object(self, schema: JSONObject, level: int) -> CoreSchema:
        properties = schema.get("properties")
        named = properties.items() if isinstance(properties, dict) else ()
        fields = {
            name: core_schema.typed_dict_field(self.at(each, level), required=False) for name, each in named
        }
        others = self.at(schema.get("additionalProperties"), level)
        return core_schema.typed_dict_schema(fields, extra_behavior="allow", extras_schema=others)

    def _any(self, schema: JSON) -> CoreSchema:
        """The check of JSON whose places are not told apart: no float where an integer may be asked for."""
        self.refers = True
        mode = _NO_FLOAT if self._has_integers(schema) else _ANY_FLOAT
        return core_schema.definition_reference_schema(f"{mode}-{_LEVELS}")

    def _has_integers(self, schema: JSON) -> bool:
        """Whether an integer is asked for anywhere within the schema, or where it refers to."""
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
