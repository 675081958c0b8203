"""The compiled check of numbers: it avoids the slow path, and changes no result."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.counting import calls_of_ours

from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.arguments.schema import Subschemas
from toolwright.core.arguments.validator import ArgumentValidator, compile_number_check
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.tool import tool

PRICES: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"type": "number", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}], "default": None},
        "whole": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "pair": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
        "extra": {"type": "object"},
        "coded": {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
    },
    "additionalProperties": False,
    "$defs": {
        "Filter": {
            "type": "object",
            "properties": {"least": {"type": "number"}, "page": {"type": "integer"}},
            "additionalProperties": {"$ref": "#/$defs/Filter"},
        }
    },
}


def passes(schema: JSONObject, value: JSON) -> bool:
    return compile_number_check(Subschemas(schema))(value)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a", "count": 3, "price": 20.0, "tags": ["a"]},
        {"price": 7, "filter": None},
        {"filter": {"least": 80.0, "page": 2}},
        {"pair": 2},
        {"whole": None},
        {"whole": 2**80},
        {"extra": {"any": [1, 2.5, 3.0, None, True, "x", {"a": [1]}]}},
    ],
)
def test_what_is_usual_passes(value: JSONObject) -> None:
    assert passes(PRICES, value)


@pytest.mark.parametrize(
    "value",
    [
        {"count": 3.0},
        {"filter": {"page": 2.0}},
        {"filter": {"more": {"page": 2.0}}},
        {"pair": 2.0},
        {"price": 10**400},
        {"price": float("inf")},
        {"price": 2.0**70},
        {"whole": float("inf")},
        {"extra": {"far": float("inf")}},
        {"extra": {"far": 10**400}},
        {"coded": {"x": float("inf")}},
        {"extra": {"a": [[[[[[[[1]]]]]]]]}},
    ],
)
def test_what_is_odd_does_not(value: JSONObject) -> None:
    assert not passes(PRICES, value)


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree: JSONObject = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}},
    }
    assert not passes(tree, {"left": {"size": 3.0}})
    assert not passes(tree, {"left": {"size": 3}})  # too many paths: the slow path


SCALARS: st.SearchStrategy[JSONObject] = st.sampled_from(
    [
        {},
        {"type": "integer"},
        {"type": "number"},
        {"type": "string"},
        {"type": ["integer", "null"]},
        {"type": ["number", "integer"]},
        {"enum": [1, "a", 2.5]},
        {"const": 3},
        {"type": "number", "maximum": 2},
        {"$ref": "#/$defs/whole"},
        {"$ref": "#/$defs/tree"},
    ]
)


def _around(inner: st.SearchStrategy[JSONObject]) -> st.SearchStrategy[JSONObject]:
    several = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        several.map(lambda each: {"type": "array", "prefixItems": [*each]}),
        several.map(lambda each: {"anyOf": [*each]}),
        several.map(lambda each: {"oneOf": [*each, {"type": "null"}]}),
        several.map(lambda each: {"allOf": [*each]}),
        inner.map(lambda each: {"type": "object", "properties": {"a": each}, "additionalProperties": False}),
        st.tuples(inner, inner).map(
            lambda two: {"type": "object", "properties": {"a": two[0]}, "additionalProperties": two[1]}
        ),
        st.tuples(inner, inner).map(
            lambda two: {"type": "object", "patternProperties": {"b": two[0]}, "additionalProperties": two[1]}
        ),
    )


SCHEMAS = st.recursive(SCALARS, _around, max_leaves=4)
NUMBERS = st.sampled_from([0, 1, 3, 2.5, 3.0, 1.0, -0.0, 10**400, 10**20, 1e20])
VALUES: st.SearchStrategy[JSON] = st.recursive(
    NUMBERS | st.sampled_from(["a", None, True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def _read(validator: ArgumentValidator, value: JSON) -> str:
    try:
        return json.dumps(validator.read(json.dumps({"v": value})))
    except InvalidArguments as fault:
        return str(fault)


@settings(max_examples=120, deadline=None)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=4))
def test_a_used_validator_reads_like_a_new_one(schema: JSONObject, values: list[JSON]) -> None:
    """The first arguments of a validator take the slow path."""
    whole: JSONObject = {
        "type": "object",
        "properties": {"v": schema},
        "$defs": {
            "whole": {"type": "integer"},
            "tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}, "maxProperties": 1},
        },
    }
    at_work = ArgumentValidator(whole, "t")
    at_work.read("{}")
    for value in values:
        assert _read(at_work, value) == _read(ArgumentValidator(whole, "t"), value)


def test_whole_prices_are_validated_without_a_walk_in_python() -> None:
    @tool
    async def find(name: str, price: float, tags: list[str], limit: int = 10) -> None:
        """Find."""

    validator, text = find.validator, '{"name": "boots", "price": 20.0, "tags": ["a", "b"], "limit": 5}'
    assert validator is not None
    validator.read(text)
    with calls_of_ours() as calls:
        validator.read(text)
    assert calls == ["read"]
