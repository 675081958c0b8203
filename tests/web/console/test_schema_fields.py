"""The fields of a form, and the values read from it."""

from typing import Any

import pytest

from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.json_value import JSON, Path
from toolwright.web.console.schema_form import (
    ABSENT,
    MAX_FIELDS,
    MAX_TEXT,
    Absence,
    Entry,
    Field,
    entry_of,
    fields_of,
    gather,
)


def form(properties: dict[str, Any], values: JSON | Absence = ABSENT, **more: Any) -> Field:
    return fields_of({"type": "object", "properties": properties, **more}, values)


def entries(field: Field) -> dict[Path, Entry]:
    if field.kind != "group":
        return {field.path: entry_of(field)}
    return {path: entry for each in field.fields for path, entry in entries(each).items()}


def entered(field: Field, **changes: Entry) -> JSON:
    return gather(field, entries(field) | {(name,): entry for name, entry in changes.items()})


KINDS: list[tuple[dict[str, Any], str]] = [
    ({"type": "string"}, "long"),
    ({"type": "string", "maxLength": 20}, "text"),
    ({"type": "string", "format": "email"}, "text"),
    ({"type": "string", "format": "password"}, "secret"),
    ({"type": "string", "format": "date"}, "date"),
    ({"type": "string", "format": "date-time"}, "datetime"),
    ({"type": "integer"}, "integer"),
    ({"type": ["number", "null"]}, "number"),
    ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "boolean"),
    ({"enum": ["a", 1]}, "choice"),
    ({"oneOf": [{"const": "a"}, {"const": "b", "title": "B"}]}, "choice"),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, "choices"),
    ({"type": "array", "items": {"type": "string"}}, "lines"),
    ({"type": "array", "items": {"type": "object"}}, "json"),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, "group"),
    ({"type": "object"}, "json"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "json"),
    ({"$ref": "#/$defs/Mood"}, "choice"),
    ({"$ref": "#/$defs/Nowhere"}, "json"),
    ({"$ref": "https://example.org/schema"}, "json"),
    ({}, "json"),
]


@pytest.mark.parametrize(("schema", "kind"), KINDS)
def test_each_property_has_the_field_of_its_type(schema: dict[str, Any], kind: str) -> None:
    definitions: dict[str, Any] = {"Mood": {"enum": ["good", "bad"]}}
    made = fields_of({"type": "object", "properties": {"it": schema}, "$defs": definitions})
    assert made.fields[0].kind == kind


def test_what_is_entered_has_the_types_of_the_schema() -> None:
    made = form(
        {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "share": {"type": "number"},
            "ready": {"type": "boolean"},
            "size": {"enum": ["S", 2]},
            "days": {"type": "array", "items": {"enum": ["mo", "tu", "we"]}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "string", "format": "date-time"},
            "more": {"type": "object"},
        }
    )
    assert entered(
        made,
        name="Ada",
        age=" 36 ",
        share="0.5",
        ready=True,
        size=1,
        days=[0, 2],
        tags="red\n\nblue",
        at="2026-11-23T10:00",
        more='{"a": [1]}',
    ) == {
        "name": "Ada",
        "age": 36,
        "share": 0.5,
        "ready": True,
        "size": 2,
        "days": ["mo", "we"],
        "tags": ["red", "blue"],
        "at": "2026-11-23T10:00:00Z",
        "more": {"a": [1]},
    }


def test_fields_that_are_left_empty_are_left_out() -> None:
    assert entered(form({"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "boolean"}})) == {}


def test_a_required_field_that_takes_null_is_null_when_it_is_empty() -> None:
    made = form({"a": {"type": ["string", "null"]}, "b": {"type": ["string", "null"]}}, required=["a"])
    assert entered(made) == {"a": None}


def test_a_required_box_that_is_not_ticked_is_false() -> None:
    assert entered(form({"a": {"type": "boolean"}}, required=["a"])) == {"a": False}


def test_a_box_that_was_ticked_by_default_can_be_unticked() -> None:
    assert entered(form({"a": {"type": "boolean", "default": True}}), a=False) == {"a": False}


@pytest.mark.parametrize(
    "values",
    [
        {"at": "2026-01-01T10:00:00.123+02:00", "n": 3.0, "deep": {"x": {"y": 1}}, "unknown": [None]},
        {"n": "three", "at": "soon", "deep": "no object"},
        {"tags": ["one\nof two lines"], "mood": "of no kind", "days": ["mo", "someday"]},
        {"long": "x" * (MAX_TEXT + 1), "one": True, "none": None},
    ],
)
def test_unchanged_values_are_returned_as_they_were(values: dict[str, JSON]) -> None:
    made = form(
        {
            "at": {"type": "string", "format": "date-time"},
            "n": {"type": "number"},
            "deep": {"type": "object", "properties": {"x": {"type": "object"}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mood": {"enum": ["good"]},
            "days": {"type": "array", "items": {"enum": ["mo"]}},
            "long": {"type": "string"},
            "one": {"type": "string"},
        },
        values,
    )
    assert entered(made) == values


def test_what_cannot_be_read_is_reported_by_its_field() -> None:
    made = form({"n": {"type": "integer"}, "f": {"type": "number"}, "j": {}})
    with pytest.raises(InvalidArguments) as fault:
        entered(made, n="1.5", f="nan", j="{")
    told = {each.path: each.text.split(":")[0] for each in fault.value.faults}
    assert told == {
        ("n",): "must be a whole number",
        ("f",): "must be a number",
        ("j",): "is not valid JSON",
    }


def test_true_is_not_the_option_one() -> None:
    made = form({"it": {"enum": [1, True, "1"]}}, {"it": True})
    assert entry_of(made.fields[0]) == 1
    assert entered(made) == {"it": True}


def test_what_an_object_holds_beyond_its_schema_has_fields_too() -> None:
    made = form({"a": {"type": "string"}}, {"a": "x", "b": 1})
    assert [(each.label, each.kind) for each in made.fields] == [("a", "long"), ("b", "json")]


def test_objects_have_fields_to_the_third_level() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "string"}}}
    for _ in range(4):
        inner = {"type": "object", "properties": {"deep": inner}}
    made, kinds = fields_of(inner), list[str]()
    while made.fields:
        made = made.fields[0]
        kinds.append(made.kind)
    assert kinds == ["group", "group", "json"]


def test_a_schema_that_refers_to_itself_ends() -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "loop": {"$ref": "#/$defs/l"}},
    }
    made = fields_of({**tree, "$defs": {"l": {"$ref": "#/$defs/l"}}})
    assert [each.kind for each in made.fields] == ["json", "json"]


def test_an_object_of_too_many_fields_is_entered_as_json() -> None:
    made = form({f"p{number}": {"type": "string"} for number in range(MAX_FIELDS + 1)})
    assert made.kind == "json"
    assert gather(made, {(): '{"p1": "x"}'}) == {"p1": "x"}
    with pytest.raises(InvalidArguments, match="must be a JSON object"):
        gather(made, {(): "[]"})


def test_a_schema_without_properties_asks_for_nothing() -> None:
    assert fields_of({"type": "object", "properties": {}}).fields == []
    assert entered(fields_of({"type": "object", "properties": {}})) == {}
