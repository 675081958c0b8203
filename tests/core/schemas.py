"""Schemas and JSON texts of all kinds, including unusual ones, for property-based tests."""

import json
from typing import Any, cast

from hypothesis import strategies as st

from toolwright.core.json_value import JSONObject

NAMES: tuple[str, ...] = (
    "a",
    "b",
    "$top",
    "filter[name]",
    "ä b",
    "config",
    "~",
    "/",
    "%",
    "x" * 70,
    "a_b",
    "",
)
NAME = st.sampled_from(NAMES)
DIALECTS = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)
URIS = (
    "a.json",
    "/x/y",
    "https://a.example/s",
    "https://a.example/s/b.json",
    "urn:x:y",
    "#a",
    "..",
    "a b",
    "%zz",
)
REFERENCES = (
    "#", "#/", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a", "#/properties/a/items/0", "#a", "#n",
    "a.json", "a.json#/properties/b", "/x/y", "https://a.example/s", "urn:x:y", "#/anyOf/0", "#/allOf/00", "#/$defs/~",
    "#/properties/%24top", "#/properties/filter%5Bname%5D", "#/properties/~1", "%zz",
)  # fmt: skip
PATTERNS = ("^a", "(?<y>a)", "\\p{L}+", "(?=a)", "[", "^[a-z]{1,3}$")
TYPES = ("object", "array", "integer", "number", "string", "boolean", "null")
FORMATS = ("date", "email", "uuid", "no such format")


def written_object(pairs: list[tuple[str, str]]) -> str:
    """Return the text of an object. A name can occur twice."""
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


def _scalars() -> st.SearchStrategy[Any]:  # any JSON, as the library types it
    numbers = st.sampled_from([0, 1, -1, 3.0, 2.5, 10**20, 1e300, -0.0, 10**400])
    return (
        st.none() | st.booleans() | numbers | st.sampled_from(["", "a", "2026-01-02", "\ud800", "nul \x00"])
    )


def _schemas(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return schemas with keywords of every draft, with `parts` as subschemas."""
    some = st.lists(parts, max_size=3)
    named = st.dictionaries(NAME, parts, max_size=3)
    names = st.lists(NAME, max_size=3, unique=True)
    bound = st.integers(-2, 5) | st.sampled_from([2.5, 1e300])
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "properties": named, "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), parts, max_size=2),
        "additionalProperties": parts, "unevaluatedProperties": parts, "propertyNames": parts, "required": names,
        "dependencies": st.dictionaries(NAME, parts | names, max_size=2),
        "dependentRequired": st.dictionaries(NAME, names, max_size=2), "dependentSchemas": named,
        "items": parts | some, "additionalItems": parts, "prefixItems": some, "contains": parts,
        "unevaluatedItems": parts,
        "anyOf": some, "oneOf": some, "allOf": some, "not": parts, "if": parts, "then": parts, "else": parts,
        "$defs": st.dictionaries(st.sampled_from(["a", "b", "~"]), parts, max_size=2),
        "definitions": st.dictionaries(st.sampled_from(["a", "b"]), parts, max_size=2),
        "$ref": st.sampled_from(REFERENCES), "$dynamicRef": st.sampled_from(REFERENCES), "$recursiveRef": st.just("#"),
        "$id": st.sampled_from(URIS), "id": st.sampled_from(URIS), "$anchor": st.sampled_from(["a", "n"]),
        "$dynamicAnchor": st.just("n"), "$recursiveAnchor": st.booleans(), "$schema": st.sampled_from(DIALECTS),
        "enum": st.lists(_values(), min_size=1, max_size=3), "const": _values(), "default": _values(),
        "minimum": bound, "maximum": bound, "exclusiveMinimum": bound | st.booleans(),
        "multipleOf": st.sampled_from([1, 0.1, 3]),
        "minLength": st.integers(0, 2), "minItems": st.integers(0, 2), "maxProperties": st.integers(0, 3),
        "uniqueItems": st.booleans(), "pattern": st.sampled_from(PATTERNS), "format": st.sampled_from(FORMATS),
        "description": st.sampled_from(["Says.", "half \ud800", "{}"]), "title": st.just("T"),
        "nullable": st.booleans(),
        "discriminator": st.just({"propertyName": "a"}), "contentSchema": parts, "x-own": _values(),
    }  # fmt: skip
    chosen = st.lists(st.sampled_from([*keywords]), max_size=5, unique=True)
    return st.booleans() | chosen.flatmap(
        lambda keys: st.fixed_dictionaries({key: keywords[key] for key in keys})
    )


def _values() -> st.SearchStrategy[Any]:
    return st.recursive(
        _scalars(),
        lambda parts: st.lists(parts, max_size=3) | st.dictionaries(NAME, parts, max_size=3),
        max_leaves=4,
    )


def _is_object(schema: Any) -> bool:  # any JSON
    return isinstance(schema, dict)


_SMALLEST: list[Any] = [{}, True, False, {"type": "integer"}]
PARTS: st.SearchStrategy[Any] = st.recursive(st.sampled_from(_SMALLEST), _schemas, max_leaves=6)
SCHEMAS: st.SearchStrategy[JSONObject] = _schemas(PARTS).filter(_is_object)
"""Schemas of any kind; few of them are valid."""
_LEAVES: list[Any] = [
    {"type": "integer"}, {"type": "number"}, {"type": "string"}, {"type": ["integer", "null"]}, {"const": 3}, True,
    {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "#"}, {"$ref": "#n"}, {"$dynamicRef": "#n"},
    {"$ref": "#/properties/a"}, {"$ref": "b.json"}, {"type": "array"}, {"type": "integer", "minimum": 0},
]  # fmt: skip


def _usual(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects: dict[str, st.SearchStrategy[Any]] = {
        "properties": st.dictionaries(NAME, parts, max_size=3),
        "additionalProperties": parts,
        "items": parts,
        "prefixItems": st.lists(parts, min_size=1, max_size=2),
        "anyOf": st.lists(parts, min_size=1, max_size=3),
        "oneOf": st.lists(parts, min_size=1, max_size=3),
        "allOf": st.lists(parts, min_size=1, max_size=3),
        "not": parts,
    }
    chosen = st.lists(st.sampled_from([*objects]), min_size=1, max_size=2, unique=True)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({key: objects[key] for key in keys}))


_USUAL: st.SearchStrategy[Any] = st.recursive(st.sampled_from(_LEAVES), _usual, max_leaves=5)


def _root(named: dict[str, Any], first: Any, second: Any, more: dict[str, Any]) -> JSONObject:
    anchored: Any = {"$anchor": "n", **cast("dict[str, Any]", second)} if isinstance(second, dict) else second
    return {"type": "object", "properties": named, "$defs": {"a": first, "b": anchored}, **more}


_MORE: dict[str, st.SearchStrategy[Any]] = {
    "$id": st.sampled_from(URIS),
    "$schema": st.sampled_from(DIALECTS),
    "anyOf": st.lists(_USUAL, min_size=1, max_size=3),
    "oneOf": st.lists(_USUAL, min_size=1, max_size=3),
    "allOf": st.lists(_USUAL, min_size=1, max_size=3),
    "required": st.lists(NAME, max_size=2, unique=True),
    "additionalProperties": _USUAL,
    "$ref": st.sampled_from(["#/$defs/a", "#n", "#"]),
    "patternProperties": st.dictionaries(st.sampled_from(PATTERNS[:3]), _USUAL, max_size=1),
}
_NAMED: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAME, _USUAL, max_size=3)
_FEW = st.lists(st.sampled_from([*_MORE]), max_size=3, unique=True)
OBJECTS: st.SearchStrategy[JSONObject] = st.builds(
    _root,
    _NAMED,
    _USUAL,
    _USUAL,
    _FEW.flatmap(lambda keys: st.fixed_dictionaries({key: _MORE[key] for key in keys})),
)
"""Schemas of objects whose references resolve; most of them are valid."""

_ODD = (
    "1e400",
    "-1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "1E2",
    "0.1e1",
    "3.0",
    "-0.0",
    "1" * 400,
    '"\\ud800"',
    "{}",
)
_TOKENS = st.sampled_from(_ODD) | _scalars().map(json.dumps)
_KEYS = (NAME | st.just("\ud800")).map(json.dumps)
_NESTED = st.integers(60, 400).map(lambda depth: "[" * depth + "]" * depth)
_TEXTS = st.recursive(
    _TOKENS | _NESTED,
    lambda parts: (
        st.lists(parts, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.tuples(_KEYS, parts), max_size=3).map(written_object)
    ),
    max_leaves=6,
)


ARGUMENTS = st.lists(st.tuples(_KEYS, _TEXTS), max_size=4).map(written_object) | _TEXTS | st.text(max_size=8)
"""JSON texts, most of them objects: with numbers beyond a double, NaN, lone surrogates, and excessive nesting."""
VALUES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAME, _values(), max_size=4)
