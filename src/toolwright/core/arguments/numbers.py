"""Numbers as a schema means them: `3.0` is the integer 3, and none is out of range."""

import math
from typing import TypeAlias
from urllib.parse import quote, unquote

import jsonschema_rs

from toolwright.core.arguments.faults import ArgumentFault, Fault
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.plain import Path

_ROOT = "json://toolwright.invalid/schema"
"""The base of the schema's own references: with a host and a path, so that a relative `$id` can be resolved."""

Place: TypeAlias = tuple[JSON, str]
"""A schema within the whole one, and the pointer to it (`#/properties/a`)."""


class Numbers:
    """Puts the numbers of a validated value into the form that their place in the schema asks for.

    The schema has accepted the value before, so a place that says `integer` holds a whole number. Of alternatives
    one that accepts the value counts: the first to which the value is right as it is, else the first.
    """

    def __init__(self, schema: JSONObject) -> None:
        self._root = schema
        self._registry: jsonschema_rs.Registry | None = None
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def normalize(self, value: JSONObject) -> JSONObject:
        """The value with its numbers in their form; raises `ArgumentFault` for one that no float can hold."""
        normal = _Normalization(self).at(value, (self._root, "#"), ())
        assert isinstance(normal, dict), "an object stays one"
        return normal

    def resolve(self, reference: JSON) -> Place | None:
        """The place that a local reference leads to."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        place: JSON = self._root
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
        """Return whether the schema at that place accepts the value."""
        validator = self._validators.get(pointer)
        if validator is None:
            self._registry = self._registry or jsonschema_rs.Registry([(_ROOT, self._root)])
            schema: JSONObject = {"$ref": _ROOT + pointer}
            if "$schema" in self._root:
                schema["$schema"] = self._root["$schema"]
            validator = jsonschema_rs.validator_for(
                schema, registry=self._registry, offline=True, validate_formats=True
            )
            self._validators[pointer] = validator
        return validator.is_valid(value)


class _Normalization:
    """One value on its way through the schema; each part of it is looked at once for each place."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._done: dict[
            tuple[int, str], tuple[JSON, JSON]
        ] = {}  # the parts are kept, so that their ids stay theirs

    def at(self, value: JSON, place: Place, path: Path) -> JSON:
        """The value as this place asks for it; the same object where it is right."""
        schema, pointer = place
        if not isinstance(schema, dict) or not isinstance(value, int | float | dict | list) or value is True:
            return value
        key = (id(value), pointer)
        if key in self._done:
            return self._done[key][1]
        self._done[key] = (value, value)  # a reference to itself asks for nothing more
        normal = self._own(self._elsewhere(value, schema, pointer, path), schema, pointer, path)
        self._done[key] = (value, normal)
        return normal

    def _elsewhere(self, value: JSON, schema: JSONObject, pointer: str, path: Path) -> JSON:
        """What the schemas say that this one refers to."""
        target = self._numbers.resolve(schema.get("$ref"))
        if target is not None:
            value = self.at(value, target, path)
        for member in _members(schema, pointer, "allOf"):
            value = self.at(value, member, path)
        for alternatives in ("anyOf", "oneOf"):
            value = self._chosen(value, _members(schema, pointer, alternatives), path)
        return value

    def _chosen(self, value: JSON, members: list[Place], path: Path) -> JSON:
        first: list[JSON] = []
        fault: ArgumentFault | None = None
        for member in members:
            if not self._numbers.accepts(member[1], value):
                continue
            try:
                normal = self.at(value, member, path)
            except ArgumentFault as error:
                fault = fault or error
                continue
            if normal is value:
                return value
            first.append(normal)
        if fault is not None and not first:
            raise fault
        return first[0] if first else value

    def _own(self, value: JSON, schema: JSONObject, pointer: str, path: Path) -> JSON:
        """What the schema itself says."""
        match value:
            case bool():
                return value
            case int() | float():
                return _number(value, schema, path)
            case dict():
                items = {
                    name: self.at(item, _property(schema, pointer, name), (*path, name))
                    for name, item in value.items()
                }
                return items if any(items[name] is not item for name, item in value.items()) else value
            case list():
                listed = [
                    self.at(item, _item(schema, pointer, index), (*path, index))
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
        return int(value) if isinstance(value, float) and float_is_whole(value) else value
    if "number" in types and "integer" not in types and isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise ArgumentFault([Fault(path, "is out of the range of numbers")]) from None
    return value


def float_is_whole(value: float) -> bool:
    """Return whether a number has no fraction."""
    return isinstance(value, int) or (math.isfinite(value) and value.is_integer())


def types_of(schema: JSONObject) -> list[str]:
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


def _members(schema: JSONObject, pointer: str, name: str) -> list[Place]:
    members = schema.get(name)
    if not isinstance(members, list):
        return []
    return [(each, f"{pointer}/{name}/{index}") for index, each in enumerate(members)]


def _property(schema: JSONObject, pointer: str, name: str) -> Place:
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        step = quote(name.replace("~", "~0").replace("/", "~1"), safe="~")
        return properties[name], f"{pointer}/properties/{step}"
    return schema.get("additionalProperties"), f"{pointer}/additionalProperties"


def _item(schema: JSONObject, pointer: str, index: int) -> Place:
    prefix = schema.get("prefixItems")
    if isinstance(prefix, list) and index < len(prefix):
        return prefix[index], f"{pointer}/prefixItems/{index}"
    return schema.get("items"), f"{pointer}/items"
