"""Paths into state and input: writes and their result, the keys of values, and references in arguments."""

import copy
import json
import re
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwright.core.arguments.errors import InvalidArguments
from toolwright.core.errors import InvalidJSON, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ID, MAX_JSON_VALUES, MAX_STATE
from toolwright.core.schemas.state_paths import (
    Method,
    OutputPath,
    StatePath,
    may_refer,
    read_output_path,
    read_state,
    read_value_key,
    resolve_references,
    value_key,
    written,
)

Write = tuple[str, Method, JSON]


def path_of(text: str) -> StatePath:
    return tuple(text.split("."))


def place_of(path: str, method: Method = "set") -> OutputPath:
    return OutputPath(path=path_of(path), method=method)


def state_of(*writes: Write) -> JSONObject:
    """Return the state after those writes."""
    state: JSONObject = {}
    for path, method, value in writes:
        state = written(state, place_of(path, method), value)
    return state


@pytest.mark.parametrize(
    ("spelled", "path"),
    [
        ("†state.a", OutputPath(path=("a",))),
        ("†state.a.b c.ü", OutputPath(path=("a", "b c", "ü"))),
        ({"path": "†state.a"}, OutputPath(path=("a",))),
        ({"path": "†state.a.b", "method": "push"}, OutputPath(path=("a", "b"), method="push")),
    ],
)
def test_an_output_path_is_read_and_written(spelled: JSON, path: OutputPath) -> None:
    assert read_output_path(spelled) == path
    assert read_output_path(path.written) == path


@pytest.mark.parametrize(
    "spelled",
    [
        "state.a", "†state", "†state.", "†state..a", "†state.a.", "†input.a", "†stateful.a", " †state.a",
        "†state.a\n.b",
        "†state.\x00", "", None, 5, ["†state.a"], {}, {"method": "set"}, {"path": "a"}, {"path": None},
        {"path": "†state.a", "method": "delete"}, {"path": "†state.a", "method": None}, {"path": "†state.a", "x": 1},
        "†state." + "a" * MAX_ID, "†state" + ".a" * 33,
    ],
)  # fmt: skip
def test_what_is_no_output_path_is_refused(spelled: Any) -> None:  # invalid on purpose
    with pytest.raises(InvalidRequest):
        read_output_path(spelled)


@pytest.mark.parametrize(
    ("after", "state"),
    [
        (state_of(), {}),
        (state_of(("a", "set", 1), ("a", "set", 2)), {"a": 2}),
        (state_of(("a.b.c", "set", None), ("a.d", "set", [])), {"a": {"b": {"c": None}, "d": []}}),
        (state_of(("a", "merge", {"x": 1}), ("a", "merge", {"y": 2, "x": 3})), {"a": {"x": 3, "y": 2}}),
        (state_of(("a", "merge", {"x": {"y": 1}}), ("a", "merge", {"x": {"z": 2}})), {"a": {"x": {"z": 2}}}),
        (state_of(("a", "push", 1), ("a", "push", [2]), ("a", "push", None)), {"a": [1, [2], None]}),
        (state_of(("a", "concat", [1]), ("a", "concat", [2, [3]])), {"a": [1, 2, [3]]}),
        (state_of(("a", "concat", "x"), ("a", "concat", "y")), {"a": "xy"}),
        (state_of(("a", "set", [1]), ("a", "push", 2), ("a", "concat", [3])), {"a": [1, 2, 3]}),
        (
            state_of(("a", "set", {"b": 1}), ("a.c", "set", 2), ("a", "merge", {"d": 3})),
            {"a": {"b": 1, "c": 2, "d": 3}},
        ),
        (state_of(("a.b", "push", 1), ("a", "set", 2)), {"a": 2}),
        (state_of(("0.1", "set", "x")), {"0": {"1": "x"}}),
    ],
)
def test_the_state_is_what_its_writes_come_to(after: JSONObject, state: JSONObject) -> None:
    assert after == state


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("x", "There is no †state.x: †state has only a, n."),
        ("a.b.x", "There is no †state.a.b.x: †state.a.b is an array without it."),
        ("a.b.2", "†state.a.b is an array without it"),
        ("a.b.-1", "†state.a.b is an array without it"),
        ("a.b.1.0", "There is no †state.a.b.1.0: †state.a.b.1 is a string without it."),
        ("n.x", "†state.n is null without it"),
        ("a.b." + "9" * 500, "†state.a.b is an array without it"),
    ],
)
def test_an_unknown_path_is_an_error_that_names_it(path: str, words: str) -> None:
    state = state_of(("a.b", "set", ["x", "y"]), ("n", "set", None))
    with pytest.raises(NotFound) as caught:
        read_state(state, path_of(path))
    assert words in caught.value.message
    assert read_state(state, ("a", "b", "1")) == "y"


@pytest.mark.parametrize(
    ("path", "method", "value", "words"),
    [
        ("text", "push", 1, "A number cannot be written to †state.text by push: its value is a string."),
        ("text", "merge", {}, "An object cannot be written to †state.text by merge: its value is a string."),
        (
            "list",
            "concat",
            "x",
            "A string cannot be written to †state.list by concat: its value is an array.",
        ),
        ("list", "merge", {}, "its value is an array"),
        ("object", "merge", [1], "An array cannot be written to †state.object by merge"),
        ("object", "concat", [1], "its value is an object"),
        ("new", "merge", 1, "A number cannot be written to †state.new by merge: its value is an object."),
        ("new", "concat", 1, "A number cannot be written to †state.new by concat"),
        ("text.a", "set", 1, "†state.text.a cannot be written: †state.text is a string, not an object."),
        ("list.0", "set", 1, "†state.list is an array, not an object"),
        ("object.null.a.b", "set", 1, "†state.object.null is null, not an object"),
    ],
)
def test_what_does_not_fit_the_place_is_refused(path: str, method: Method, value: JSON, words: str) -> None:
    state = state_of(("text", "set", "x"), ("list", "set", [1]), ("object", "set", {"null": None}))
    with pytest.raises(InvalidRequest) as caught:
        written(state, place_of(path, method), value)
    assert words in caught.value.message


def test_a_write_needs_a_name_and_a_value_of_json() -> None:
    with pytest.raises(InvalidRequest, match="a name in the state"):
        written({}, OutputPath(path=()), {})
    with pytest.raises(InvalidJSON):
        written({}, place_of("a"), float("nan"))


def test_what_is_written_is_a_copy() -> None:
    value: list[JSON] = [1]
    state = written({}, place_of("a"), value)
    value.append(2)
    assert state == {"a": [1]}
    assert written(state, place_of("a", "push"), 3) == {"a": [1, 3]}
    assert state == {"a": [1]}


def test_a_state_is_not_nested_too_deep_nor_too_large() -> None:
    deep: JSON = 1
    for _ in range(60):
        deep = [deep]
    state = written({}, place_of("a.a.a"), deep)
    with pytest.raises(
        InvalidRequest, match=r"With †state\.b\.b\.b\.b the state would be nested deeper than 64 levels"
    ):
        written(state, place_of("b.b.b.b"), [deep])
    half = "x" * (MAX_STATE // 2)
    state = written(state, place_of("text", "concat"), half)
    for path in ("text", "other"):
        with pytest.raises(InvalidRequest, match=rf"With †state\.{path} the state would have more than"):
            written(state, place_of(path, "concat"), half)
    many: list[JSON] = [0] * (MAX_JSON_VALUES // 2)
    state = written({}, place_of("many", "concat"), many)
    with pytest.raises(InvalidRequest, match=r"With †state\.many the state would have more than"):
        written(state, place_of("many", "concat"), many)


# Random writes

NAMES = st.sampled_from(["a", "b", "0"])
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.sampled_from([None, 1, "x"]),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(NAMES, part, max_size=2),
    max_leaves=4,
)
PATHS: st.SearchStrategy[StatePath] = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
PLACES = st.builds(OutputPath, path=PATHS, method=st.sampled_from(get_args(Method)))
WRITES = st.lists(st.tuples(PLACES, VALUES), max_size=12)


def accepted(writes: list[tuple[OutputPath, JSON]]) -> JSONObject:
    """Return the state after the valid ones of those writes."""
    state: JSONObject = {}
    for place, value in writes:
        try:
            state = written(state, place, value)
        except InvalidRequest:
            continue
    return state


def value_at(state: JSON, path: StatePath) -> JSON:
    """Return the value at a path, step by step. Raises `LookupError` if there is none."""
    for name in path:
        match state:
            case dict():
                state = state[name]
            case list() if name.isdecimal():
                state = state[int(name)]
            case _:
                raise LookupError(name)
    return state


@settings(max_examples=120, deadline=None)
@given(WRITES, PATHS)
def test_a_path_reads_what_the_state_has_there(
    writes: list[tuple[OutputPath, JSON]], path: StatePath
) -> None:
    state = accepted(writes)
    try:
        expected = value_at(state, path)
    except LookupError:
        with pytest.raises(NotFound):
            read_state(state, path)
    else:
        assert read_state(state, path) == expected


@settings(max_examples=100, deadline=None)
@given(WRITES, PATHS, VALUES)
def test_what_has_been_set_is_there(
    writes: list[tuple[OutputPath, JSON]], path: StatePath, value: JSON
) -> None:
    state = accepted(writes)
    try:
        after = written(state, OutputPath(path=path), value)
    except InvalidRequest:
        return
    assert read_state(after, path) == value


@settings(max_examples=120, deadline=None)
@given(WRITES, PLACES, VALUES)
def test_a_write_changes_nothing_of_the_state_before_it_nor_beside_it(
    writes: list[tuple[OutputPath, JSON]], place: OutputPath, value: JSON
) -> None:
    state = accepted(writes)
    before = copy.deepcopy(state)
    try:
        after = written(state, place, value)
    except InvalidRequest:
        after = state
    assert state == before
    first = place.path[0]
    assert {**after, first: None} == {**before, first: None}


@settings(max_examples=100, deadline=None)
@given(WRITES, PLACES, VALUES)
def test_a_write_needs_only_the_value_of_its_first_name(
    writes: list[tuple[OutputPath, JSON]], place: OutputPath, value: JSON
) -> None:
    state = accepted(writes)
    part = {name: each for name, each in state.items() if name == place.path[0]}
    try:
        after = written(state, place, value)
    except InvalidRequest as error:
        with pytest.raises(InvalidRequest, match=re.escape(error.message)):
            written(part, place, value)
    else:
        assert written(part, place, value) == {place.path[0]: after[place.path[0]]}


# Keys of values

KEYS = st.text(st.sampled_from("a†.ü"), min_size=1, max_size=6)


@given(KEYS, KEYS | st.none(), KEYS, KEYS | st.none())
def test_no_two_fields_of_instances_have_the_same_key(
    name: str, instance: str | None, other: str, of: str | None
) -> None:
    try:
        key, another = value_key(name, instance), value_key(other, of)
    except InvalidRequest:
        return
    assert read_value_key(key) == (name, instance)
    assert (key == another) == ((name, instance) == (other, of))


def test_keys_that_would_be_those_of_another_instance_are_refused() -> None:
    assert value_key("a.b", None) == "a.b"
    assert value_key("†a", None) == "†a"
    assert value_key("a", "x.y") == "†a.x.y"
    for name, instance in (("†a.one", None), ("a.b", "one")):
        with pytest.raises(InvalidRequest, match="is not valid in this call"):
            value_key(name, instance)
    with pytest.raises(InvalidRequest, match="must have 1 to 200 characters"):
        value_key("a" * 100, "b" * 100)


# References

STATE: JSONObject = {
    "user": {"name": "Ada", "tags": ["x", {"y": 1}]},
    "†state.user": "no way there",
    "none": None,
}
INPUT: JSONObject = {"city": "Paris", "trap": "†state.user.name"}


def test_references_give_way_to_what_is_there() -> None:
    arguments: JSONObject = {
        "name": "†state.user.name",
        "list": ["†input.city", {"tag": "†state.user.tags.1"}, 5, None, True],
        "none": "†state.none",
        "whole": "†input",
    }
    assert resolve_references(arguments, STATE, INPUT) == {
        "name": "Ada",
        "list": ["Paris", {"tag": {"y": 1}}, 5, None, True],
        "none": None,
        "whole": INPUT,
    }
    assert arguments["name"] == "†state.user.name"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "†",
        "†state of mind",
        "see †state.user",
        " †state.user",
        "†State.user",
        "†output.x",
        "†statement.x",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert resolve_references({"a": text, "†state.user": 1}, STATE, INPUT) == {"a": text, "†state.user": 1}


def test_what_a_reference_gives_is_not_followed() -> None:
    assert resolve_references({"a": "†input.trap"}, STATE, INPUT) == {"a": "†state.user.name"}


def test_what_references_give_is_a_copy() -> None:
    state: JSONObject = {"list": [[1]]}
    resolved = resolve_references({"a": "†state.list", "b": ["†state.list"]}, state, {})
    assert isinstance(resolved["a"], list)
    resolved["a"].append(2)
    assert (state, resolved["b"]) == ({"list": [[1]]}, [[[1]]])


def test_arguments_without_the_mark_are_known_by_their_text() -> None:
    assert may_refer(json.dumps({"a": "†input"}))
    assert may_refer(json.dumps({"a": "†input"}, ensure_ascii=False))
    assert not may_refer(json.dumps({"a": "input"}))


def test_every_unknown_reference_is_an_error_that_names_the_path() -> None:
    arguments: JSONObject = {
        "a": "†state.user.nme",
        "b": [{"c": "†input.x.y"}],
        "d": "†state.",
        "e": "†state.user.tags.7",
    }
    with pytest.raises(InvalidArguments) as caught:
        resolve_references(arguments, STATE, INPUT)
    assert str(caught.value) == (
        "Invalid arguments: a: refers to nothing: There is no †state.user.nme: †state.user has only name, tags; "
        "b.0.c: refers to nothing: There is no †input.x.y: †input has only city, trap; "
        "d: refers to nothing: There is no †state.: †state has only user, †state.user, none; "
        "e: refers to nothing: There is no †state.user.tags.7: †state.user.tags is an array without it."
    )


def test_the_input_may_hold_nothing() -> None:
    with pytest.raises(InvalidArguments, match=r"There is no †input\.x: †input is an object without it"):
        resolve_references({"a": "†input.x"}, {}, {})


def test_references_do_not_make_arguments_larger_than_they_may_be() -> None:
    zeros: list[JSON] = [0] * 50_000
    for name, words in (("many", "more than 100000 values"), ("text", "1048576 bytes")):
        references: list[JSON] = [f"†state.{name}"] * 50_000
        with pytest.raises(InvalidArguments, match=words):
            resolve_references({"a": references}, {"many": zeros, "text": "x" * 1_000_000}, {})
    deep: JSON = "†state.deep"
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidArguments, match="nested deeper than 64 levels"):
        resolve_references({"a": deep}, {"deep": deep}, {})
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidArguments, match="nested deeper than 64 levels"):
        resolve_references({"a": deep}, {}, {})
