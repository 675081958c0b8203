"""Schemas in the dialects of providers' structured output: supported parts, parts in the prompt, unsupported ones."""

from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwright.adapters.models.providers.tools import (
    MAX_ENUM_VALUES,
    MAX_LEVELS,
    MAX_PROPERTIES,
    anthropic_form,
    openai_form,
)
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.tools.compose import closed_form, strict_form

FORMS = (openai_form, anthropic_form)
BOUNDS: JSONObject = {
    "type": "integer",
    "minimum": 1,
    "exclusiveMaximum": 9,
    "multipleOf": 2,
    "default": 4,
}


def of(part: JSON, definition: JSON = None) -> JSONObject:
    """Return a schema with one required property, which can refer to a definition."""
    schema: JSONObject = {"type": "object", "properties": {"x": part}, "required": ["x"]}
    return schema if definition is None else {**schema, "$defs": {"D": definition}}


def rendered(form: Callable[[JSONObject], JSONObject], part: JSON, definition: JSON = None) -> JSON:
    """Return the rendering of one required property."""
    schema: Any = form(of(part, definition))  # indexed JSON
    return schema["properties"]["x"]


@pytest.mark.parametrize(
    ("part", "openai", "anthropic"),
    [
        (
            BOUNDS,
            {
                "type": "integer",
                "minimum": 1,
                "exclusiveMaximum": 9,
                "multipleOf": 2,
                "description": "default: 4",
            },
            {"type": "integer", "description": "minimum: 1, exclusiveMaximum: 9, multipleOf: 2, default: 4"},
        ),
        (
            {"type": "string", "description": "A name.", "minLength": 2, "pattern": "^a"},
            {"type": "string", "description": "A name. (minLength: 2)", "pattern": "^a"},
            {"type": "string", "description": 'A name. (minLength: 2, pattern: "^a")'},
        ),
        (
            {"type": "string", "pattern": "^(?=a)"},
            {"type": "string", "description": 'pattern: "^(?=a)"'},
            {"type": "string", "description": 'pattern: "^(?=a)"'},
        ),
        (
            {"type": "string", "format": "uri"},
            {"type": "string", "description": 'format: "uri"'},
            {"type": "string", "format": "uri"},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "maxItems: 3"},
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
            {"type": "array", "items": {"type": "string"}, "minItems": 2, "description": "uniqueItems: true"},
            {
                "type": "array",
                "items": {"type": "string"},
                "description": "minItems: 2, uniqueItems: true",
            },
        ),
    ],
)
def test_a_keyword_that_a_provider_refuses_is_told_in_words(
    part: JSON, openai: JSON, anthropic: JSON
) -> None:
    assert rendered(openai_form, part) == openai
    assert rendered(anthropic_form, part) == anthropic


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        ({"const": "a"}, {"type": "string", "const": "a"}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        (
            {"title": "T", "enum": ["a", None, "b"]},
            {
                "title": "T",
                "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null", "enum": [None]}],
            },
        ),
        (
            {
                "type": ["array", "string", "null"],
                "items": {"type": "null"},
                "minItems": 1,
                "description": "D",
            },
            {
                "description": "D",
                "anyOf": [
                    {"type": "array", "items": {"type": "null"}, "minItems": 1},
                    {"type": "string"},
                    {"type": "null"},
                ],
            },
        ),
        ({"$ref": "#/$defs/D"}, {"$ref": "#/$defs/D"}),
        (
            {"$ref": "#/$defs/D", "description": "Where."},
            {"description": "Where.", "anyOf": [{"$ref": "#/$defs/D"}]},
        ),
    ],
)
def test_types_and_references_have_the_shapes_that_providers_document(
    form: Callable[[JSONObject], JSONObject], part: JSON, wanted: JSON
) -> None:
    assert rendered(form, part, {"type": "null"}) == wanted


BEYOND: list[tuple[JSON, str]] = [
    ({"enum": [{}]}, "enum of objects or lists"),
    ({"type": "object", "properties": {"a": {"type": "null"}}, "enum": [{}]}, "enum of objects or lists"),
    ({"const": []}, "enum of objects or lists"),
    ({"enum": ["a", 1], "anyOf": [{"type": "string"}]}, "next to an enum of several types"),
    ({"$ref": "#/properties/x"}, "accepts the reference '#/properties/x'"),
    ({"$ref": "#/$defs/D", "properties": {"a": {"type": "null"}}}, "other keywords next to the reference"),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("part", "fault"), BEYOND)
def test_what_no_provider_takes_is_refused(
    form: Callable[[JSONObject], JSONObject], part: JSON, fault: str
) -> None:
    with pytest.raises(DefinitionError, match=fault):
        form(of(part, {"type": "null"}))


def nested(levels: int) -> JSONObject:
    """Return an object schema with that nesting depth."""
    schema: JSON = {"type": "null"}
    for _ in range(levels):
        schema = of(schema)
    assert isinstance(schema, dict)
    return schema


def test_a_required_name_that_is_not_described_has_no_strict_form() -> None:
    schema: JSONObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
    for form in (closed_form, strict_form, *FORMS):
        with pytest.raises(DefinitionError, match="requires fields that it does not describe"):
            form(schema)


def test_openai_holds_a_model_to_schemas_up_to_its_limits_only() -> None:
    wide: dict[str, JSON] = {f"p{number}": {"type": "null"} for number in range(MAX_PROPERTIES)}
    within: list[JSONObject] = [
        nested(MAX_LEVELS),
        of({"$ref": "#/$defs/D"}, nested(MAX_LEVELS)),
        {"type": "object", "properties": wide},
        of({"enum": [*range(MAX_ENUM_VALUES)]}),
    ]
    beyond: list[tuple[JSONObject, str]] = [
        (nested(MAX_LEVELS + 1), "10 levels"),
        (of({"$ref": "#/$defs/D"}, nested(MAX_LEVELS + 1)), "10 levels"),
        ({"type": "object", "properties": {**wide, "x": {"type": "null"}}}, "5000 properties"),
        (of({"enum": [*range(MAX_ENUM_VALUES + 1)]}), "1000 values"),
    ]
    for schema in within:
        openai_form(schema)
    for schema, fault in beyond:
        with pytest.raises(DefinitionError, match=fault):
            openai_form(schema)


SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "ab"])
LEAVES = (
    st.sampled_from(["string", "integer", "boolean", "null", ["string", "null"]]).map(
        lambda kind: {"type": kind}
    )
    | st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr).map(lambda values: {"enum": values})
    | SCALARS.map(lambda value: {"const": value})
    | st.just({"type": "integer", "minimum": 1, "maximum": 2})
    | st.just({"type": "string", "minLength": 2, "title": "T"})
    | st.just({"$ref": "#/$defs/D", "description": "Of its own."})
)
PARTS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda part: (
        st.tuples(part, st.sampled_from(["array", ["array", "null"]])).map(
            lambda each: {"type": each[1], "items": each[0], "maxItems": 2}
        )
        | st.tuples(
            st.dictionaries(st.sampled_from("ab"), part, min_size=1, max_size=2),
            st.sampled_from(["object", ["object", "string"]]),
        ).map(lambda each: {"type": each[1], "properties": each[0], "required": [*each[0]][:1]})
        | st.lists(part, min_size=1, max_size=2).map(lambda each: {"anyOf": each})
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    SCALARS,
    lambda value: st.lists(value, max_size=2) | st.dictionaries(st.sampled_from("abx"), value, max_size=2),
    max_leaves=5,
)


def objects(schema: JSON) -> Iterator[JSONObject]:
    """Return all objects of a rendering that are schemas."""
    if isinstance(schema, dict):
        yield schema
        for key in ("properties", "$defs"):
            group = schema.get(key, {})
            for part in group.values() if isinstance(group, dict) else ():
                yield from objects(part)
        branches = schema.get("anyOf", [])
        for part in (schema.get("items"), *(branches if isinstance(branches, list) else ())):
            yield from objects(part)


@settings(max_examples=200, deadline=None)
@given(st.data(), PARTS, PARTS.filter(lambda part: "$ref" not in str(part)))
def test_a_rendering_takes_all_that_the_plain_form_takes(
    data: st.DataObject, part: JSON, shared: JSON
) -> None:
    schema = of(part, shared)
    for form, plain in ((openai_form, strict_form), (anthropic_form, closed_form)):
        rendering = form(schema)
        assert jsonschema_rs.meta.is_valid(rendering)
        for each in objects(rendering):
            assert "properties" not in each or each["additionalProperties"] is False
            assert not {"enum", "const"} & each.keys() or isinstance(each["type"], str)
            assert "$ref" not in each or len(each) == 1
        asked = jsonschema_rs.validator_for(plain(schema), offline=True)
        told = jsonschema_rs.validator_for(rendering, offline=True)
        for value in data.draw(st.lists(VALUES, max_size=8)):
            assert told.is_valid({"x": value}) or not asked.is_valid({"x": value})
