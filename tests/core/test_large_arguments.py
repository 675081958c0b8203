"""Arguments with very many values: validated without an object for each error."""

import json

import pytest

from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.arguments.validator import ArgumentValidator
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_ERRORS, MAX_JSON_VALUES

TEXTS: JSONObject = {"type": "array", "items": {"type": "string"}}


def schema(**properties: JSONObject) -> JSONObject:
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*properties],
        "additionalProperties": False,
    }


def faults(of: JSONObject, arguments: object) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as error:
        ArgumentValidator(of, "tool").read(json.dumps(arguments))
    return tuple(map(str, error.value.faults))


def test_of_ninety_thousand_errors_the_first_are_reported() -> None:
    told = faults(schema(a=TEXTS), {"a": [1] * 90_000})
    assert told == tuple(f"a.{n}: must be a string, not a number" for n in range(MAX_ERRORS))


def test_all_errors_of_usual_arguments_are_reported() -> None:
    assert len(faults(schema(a=TEXTS), {"a": [1] * 90})) == 90


def test_what_was_only_cut_off_is_not_called_missing() -> None:
    of = schema(a={**TEXTS, "minItems": 1_000}, z={"type": "integer"})
    wide: JSONObject = {"type": "object", "required": ["k9999"], "additionalProperties": {"type": "integer"}}
    assert faults(of, {"a": ["x"] * 90_000, "z": "no"}) == ("z: must be an integer, not a string",)
    told = faults(
        schema(w=wide, z={"type": "integer"}), {"w": {f"k{n}": n for n in range(10_000)}, "z": "no"}
    )
    assert told == ("z: must be an integer, not a string",)


def test_a_missing_name_is_reported() -> None:
    assert faults(schema(a=TEXTS, b=TEXTS), {"a": ["x"] * 90_000}) == ("b: is missing",)


def test_an_error_after_the_first_items_is_reported() -> None:
    (told,) = faults(schema(a=TEXTS), {"a": ["x"] * 5_000 + [1]})
    assert told == "fits the schema in the first 50 items of its lists and objects, but not in what follows"


def test_arguments_of_too_many_values_are_refused_before_they_are_parsed() -> None:
    assert faults({"type": "object"}, {"a": [1] * MAX_JSON_VALUES}) == ("hold more than 100000 JSON values",)
