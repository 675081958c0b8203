"""Numbers as a schema means them: `3.0` is the integer 3, and none is out of range."""

import math

from toolwright.core.faults import ArgumentFault, Fault
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import Path

_BRANCHES = ("anyOf", "oneOf", "allOf")
_MAX_REFERENCES = 64


class Numbers:
    """Puts the numbers of a judged value into the form that their place in the schema asks for.

    The schema has accepted the value before, so a place that says `integer` holds a whole number.
    """

    def __init__(self, schema: JSONObject) -> None:
        self._root = schema

    def settle(self, value: JSONObject) -> None:
        """Change the numbers within `value`; raises `ArgumentFault` for one that no float can hold."""
        self._walk(value, [self._root], ())

    def _walk(self, value: JSON, schemas: list[JSON], path: Path) -> JSON:
        known = self._expand(schemas)
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, int | float | dict | list):
                    value[key] = self._walk(item, [_property(schema, key) for schema in known], (*path, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, int | float | dict | list):
                    value[index] = self._walk(
                        item, [_item(schema, index) for schema in known], (*path, index)
                    )
        elif isinstance(value, int | float) and not isinstance(value, bool):
            return _number(value, known, path)
        return value

    def _expand(self, schemas: list[JSON]) -> list[JSONObject]:
        """All schemas that speak about one place: references followed, alternatives taken apart."""
        known: list[JSONObject] = []
        left = [schema for schema in schemas if isinstance(schema, dict)]
        references = 0
        while left:
            schema = left.pop()
            known.append(schema)
            for branch in _BRANCHES:
                members = schema.get(branch)
                left += (
                    [each for each in members if isinstance(each, dict)] if isinstance(members, list) else []
                )
            target = self._resolve(schema.get("$ref"))
            if target is not None and references < _MAX_REFERENCES:
                references += 1
                left.append(target)
        return known

    def _resolve(self, reference: JSON) -> JSONObject | None:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        here: JSON = self._root
        for step in filter(None, reference[1:].split("/")):
            here = here.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(here, dict) else None
        return here if isinstance(here, dict) else None


def _number(value: float, schemas: list[JSONObject], path: Path) -> JSON:
    types = {name for schema in schemas for name in _types(schema)}
    if "integer" in types and "number" not in types:
        return int(value) if float_is_whole(value) else value
    if "number" in types and "integer" not in types and isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise ArgumentFault([Fault(path, "is out of the range of numbers")]) from None
    return value


def float_is_whole(value: float) -> bool:
    """Whether a number has no fraction."""
    return isinstance(value, int) or (math.isfinite(value) and value.is_integer())


def _types(schema: JSONObject) -> list[str]:
    """The types that a schema names; whole constants (`const`, `enum`) are integers."""
    named = schema.get("type")
    names = (
        [named]
        if isinstance(named, str)
        else [n for n in named if isinstance(n, str)]
        if isinstance(named, list)
        else []
    )
    options = schema.get("enum")
    constants = [*(options if isinstance(options, list) else []), schema.get("const")]
    if any(type(constant) is int for constant in constants) and "number" not in names:
        names = [*names, "integer"]
    return names


def _property(schema: JSONObject, key: str) -> JSON:
    properties = schema.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    return schema.get("additionalProperties")


def _item(schema: JSONObject, index: int) -> JSON:
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index]
    return schema.get("items")
