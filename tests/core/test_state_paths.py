"""Paths into state and input: the log of writes, what is there now, and references in arguments."""

import functools
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwright.core.arguments.faults import ArgumentFault
from toolwright.core.errors import InvalidJSON, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ID, MAX_JSON_VALUES, MAX_STATE
from toolwright.core.schemas.state_paths import (
    Method,
    OutputPath,
    StatePath,
    StateWrite,
    add_write,
    read_output_path,
    read_state,
    resolve_references,
)

Log = tuple[StateWrite, ...]


def path_of(text: str) -> StatePath:
    return tuple(text.split("."))


def log_of(*entries: tuple[str, Method, JSON]) -> Log:
    writes = [StateWrite(path=path_of(path), method=method, value=value) for path, method, value in entries]
    return functools.reduce(add_write, writes, ())


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("†state.a", OutputPath(path=("a",))),
        ("†state.a.b c.ü", OutputPath(path=("a", "b c", "ü"))),
        ({"path": "†state.a"}, OutputPath(path=("a",))),
        ({"path": "†state.a.b", "method": "push"}, OutputPath(path=("a", "b"), method="push")),
    ],
)
def test_an_output_path_is_read_and_written(written: JSON, path: OutputPath) -> None:
    assert read_output_path(written) == path
    assert read_output_path(path.written) == path


@pytest.mark.parametrize(
    "written",
    [
        "state.a", "†state", "†state.", "†state..a", "†state.a.", "†input.a", "†stateful.a", " †state.a",
        "†state.a\n.b",
        "†state.\x00", "", None, 5, ["†state.a"], {}, {"method": "set"}, {"path": "a"}, {"path": None},
        {"path": "†state.a", "method": "delete"}, {"path": "†state.a", "method": None}, {"path": "†state.a", "x": 1},
        "†state." + "a" * MAX_ID, "†state" + ".a" * 33,
    ],
)  # fmt: skip
def test_what_is_no_output_path_is_refused(written: Any) -> None:  # none on purpose
    with pytest.raises(InvalidRequest):
        read_output_path(written)


@pytest.mark.parametrize(
    ("log", "state"),
    [
        (log_of(), {}),
        (log_of(("a", "set", 1), ("a", "set", 2)), {"a": 2}),
        (log_of(("a.b.c", "set", None), ("a.d", "set", [])), {"a": {"b": {"c": None}, "d": []}}),
        (log_of(("a", "merge", {"x": 1}), ("a", "merge", {"y": 2, "x": 3})), {"a": {"x": 3, "y": 2}}),
        (log_of(("a", "merge", {"x": {"y": 1}}), ("a", "merge", {"x": {"z": 2}})), {"a": {"x": {"z": 2}}}),
        (log_of(("a", "push", 1), ("a", "push", [2]), ("a", "push", None)), {"a": [1, [2], None]}),
        (log_of(("a", "concat", [1]), ("a", "concat", [2, [3]])), {"a": [1, 2, [3]]}),
        (log_of(("a", "concat", "x"), ("a", "concat", "y")), {"a": "xy"}),
        (log_of(("a", "set", [1]), ("a", "push", 2), ("a", "concat", [3])), {"a": [1, 2, 3]}),
        (
            log_of(("a", "set", {"b": 1}), ("a.c", "set", 2), ("a", "merge", {"d": 3})),
            {"a": {"b": 1, "c": 2, "d": 3}},
        ),
        (log_of(("a.b", "push", 1), ("a", "set", 2)), {"a": 2}),
        (log_of(("0.1", "set", "x")), {"0": {"1": "x"}}),
    ],
)
def test_the_state_is_what_its_writes_come_to(log: Log, state: JSONObject) -> None:
    assert read_state(log) == state


def test_reading_goes_back_no_further_than_to_what_has_set_the_place() -> None:
    unreadable = StateWrite(path=("a",), method="push", value=1)
    broken = (StateWrite(path=("a",), method="set", value="text"), unreadable)
    log = (
        *broken,
        StateWrite(path=("a",), method="set", value=[1]),
        StateWrite(path=("b",), method="set", value=2),
    )
    assert read_state(log, ("b",)) == 2
    assert read_state(log, ("a",)) == [1]
    assert read_state((*log, unreadable), ("a", "1")) == 1
    with pytest.raises(InvalidRequest):
        read_state(broken, ("a",))


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
    log = log_of(("a.b", "set", ["x", "y"]), ("n", "set", None))
    with pytest.raises(NotFound) as caught:
        read_state(log, path_of(path))
    assert words in caught.value.message
    assert read_state(log, ("a", "b", "1")) == "y"


@pytest.mark.parametrize(
    ("path", "method", "value", "words"),
    [
        ("text", "push", 1, "A number cannot be written to †state.text by push: there is a string."),
        ("text", "merge", {}, "An object cannot be written to †state.text by merge: there is a string."),
        ("list", "concat", "x", "A string cannot be written to †state.list by concat: there is an array."),
        ("list", "merge", {}, "there is an array"),
        ("object", "merge", [1], "An array cannot be written to †state.object by merge"),
        ("object", "concat", [1], "there is an object"),
        ("new", "merge", 1, "A number cannot be written to †state.new by merge: there is an object."),
        ("new", "concat", 1, "A number cannot be written to †state.new by concat"),
        ("text.a", "set", 1, "†state.text.a cannot be written: †state.text is a string, not an object."),
        ("list.0", "set", 1, "†state.list is an array, not an object"),
        ("object.null.a.b", "set", 1, "†state.object.null is null, not an object"),
    ],
)
def test_what_does_not_fit_the_place_is_refused_when_it_is_written(
    path: str, method: Method, value: JSON, words: str
) -> None:
    log = log_of(("text", "set", "x"), ("list", "set", [1]), ("object", "set", {"null": None}))
    with pytest.raises(InvalidRequest) as caught:
        add_write(log, StateWrite(path=path_of(path), method=method, value=value))
    assert words in caught.value.message


def test_a_write_needs_a_name_and_a_value_of_json() -> None:
    with pytest.raises(InvalidRequest, match="a name in the state"):
        add_write((), StateWrite(path=(), method="set", value={}))
    with pytest.raises(InvalidJSON):
        add_write((), StateWrite(path=("a",), method="set", value=float("nan")))


def test_what_is_written_is_a_copy() -> None:
    value: list[JSON] = [1]
    log = add_write((), StateWrite(path=("a",), method="set", value=value))
    value.append(2)
    assert read_state(log) == {"a": [1]}
    assert read_state(add_write(log, StateWrite(path=("a",), method="push", value=3))) == {"a": [1, 3]}
    assert read_state(log) == {"a": [1]}


def test_a_state_is_not_nested_too_deep_nor_too_large() -> None:
    deep: JSON = 1
    for _ in range(60):
        deep = [deep]
    log = add_write((), StateWrite(path=("a",) * 3, method="set", value=deep))
    with pytest.raises(
        InvalidRequest, match=r"With †state\.b\.b\.b\.b the state would be nested deeper than 64 levels"
    ):
        add_write(log, StateWrite(path=("b",) * 4, method="set", value=[deep]))
    half = "x" * (MAX_STATE // 2)
    log = add_write(log, StateWrite(path=("text",), method="concat", value=half))
    for path in ("text", "other"):
        with pytest.raises(InvalidRequest, match=rf"With †state\.{path} the state would have more than"):
            add_write(log, StateWrite(path=(path,), method="concat", value=half))
    add_write(log, StateWrite(path=("text",), method="concat", value=half, instance="another"))
    many: list[JSON] = [0] * (MAX_JSON_VALUES // 2)
    log = add_write((), StateWrite(path=("many",), method="concat", value=many))
    with pytest.raises(InvalidRequest, match=r"With †state\.many the state would have more than"):
        add_write(log, StateWrite(path=("many",), method="concat", value=many))


# Any log

NAMES = st.sampled_from(["a", "b", "0"])
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.sampled_from([None, 1, "x"]),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(NAMES, part, max_size=2),
    max_leaves=4,
)
PATHS: st.SearchStrategy[StatePath] = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
INSTANCES = st.sampled_from([None, "one", "two"])
WRITES = st.lists(
    st.builds(
        StateWrite, path=PATHS, method=st.sampled_from(get_args(Method)), value=VALUES, instance=INSTANCES
    ),
    max_size=12,
)


def accepted(writes: list[StateWrite]) -> Log:
    """The log of those writes that are not refused."""
    log: Log = ()
    for write in writes:
        try:
            log = add_write(log, write)
        except InvalidRequest:
            continue
    return log


def value_at(state: JSON, path: StatePath) -> JSON:
    """The value at a path, step by step; raises `LookupError` where nothing is."""
    for name in path:
        match state:
            case dict():
                state = state[name]
            case list() if name.isdecimal():
                state = state[int(name)]
            case _:
                raise LookupError(name)
    return state


@settings(max_examples=300, deadline=None)
@given(WRITES)
def test_instances_never_mix(writes: list[StateWrite]) -> None:
    log = accepted(writes)
    for instance in (None, "one", "two", "three"):
        own = tuple(write for write in log if write.instance == instance)
        alone = [
            StateWrite(path=each.path, method=each.method, value=each.value)
            for each in writes
            if each.instance == instance
        ]
        assert read_state(log, (), instance) == read_state(own, (), instance) == read_state(accepted(alone))


@settings(max_examples=300, deadline=None)
@given(WRITES, PATHS, INSTANCES)
def test_a_path_reads_what_the_whole_state_has_there(
    writes: list[StateWrite], path: StatePath, instance: str | None
) -> None:
    log = accepted(writes)
    state = read_state(log, (), instance)
    try:
        expected = value_at(state, path)
    except LookupError:
        with pytest.raises(NotFound):
            read_state(log, path, instance)
    else:
        assert read_state(log, path, instance) == expected


@settings(max_examples=200, deadline=None)
@given(WRITES, PATHS, VALUES)
def test_what_has_been_set_is_there(writes: list[StateWrite], path: StatePath, value: JSON) -> None:
    log = accepted(writes)
    try:
        after = add_write(log, StateWrite(path=path, method="set", value=value))
    except InvalidRequest:
        return
    assert after[:-1] == log
    assert read_state(after, path) == value


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


def test_every_unknown_reference_is_an_error_that_names_the_path() -> None:
    arguments: JSONObject = {
        "a": "†state.user.nme",
        "b": [{"c": "†input.x.y"}],
        "d": "†state.",
        "e": "†state.user.tags.7",
    }
    with pytest.raises(ArgumentFault) as caught:
        resolve_references(arguments, STATE, INPUT)
    assert str(caught.value) == (
        "Invalid arguments: a: refers to nothing: There is no †state.user.nme: †state.user has only name, tags; "
        "b.0.c: refers to nothing: There is no †input.x.y: †input has only city, trap; "
        "d: refers to nothing: There is no †state.: †state has only user, †state.user, none; "
        "e: refers to nothing: There is no †state.user.tags.7: †state.user.tags is an array without it."
    )


def test_the_input_may_hold_nothing() -> None:
    with pytest.raises(ArgumentFault, match=r"There is no †input\.x: †input is an object without it"):
        resolve_references({"a": "†input.x"}, {}, {})


def test_references_do_not_make_arguments_larger_than_they_may_be() -> None:
    zeros: list[JSON] = [0] * 50_000
    for name, words in (("many", "more than 100000 values"), ("text", "10485760 bytes")):
        references: list[JSON] = [f"†state.{name}"] * 50_000
        with pytest.raises(ArgumentFault, match=words):
            resolve_references({"a": references}, {"many": zeros, "text": "x" * 1_000_000}, {})
    deep: JSON = "†state.deep"
    for _ in range(40):
        deep = [deep]
    with pytest.raises(ArgumentFault, match="nested deeper than 64 levels"):
        resolve_references({"a": deep}, {"deep": deep}, {})
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ArgumentFault, match="nested deeper than 64 levels"):
        resolve_references({"a": deep}, {}, {})
