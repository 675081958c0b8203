"""Paths into the state of a request, `†state.a.b`: writing by them, reading what is there now, and references."""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast, get_args

from toolwright.core.arguments.faults import ArgumentFault, Fault, type_name
from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ID, MAX_JSON_VALUES, MAX_NESTING, MAX_STATE
from toolwright.core.plain import Path, deeper, has_more_values, plain, surely_longer
from toolwright.core.text import brief
from toolwright.core.value import value

Method: TypeAlias = Literal["set", "merge", "push", "concat"]
StatePath: TypeAlias = tuple[str, ...]

_STATE = "†state"
_INPUT = "†input"
_REFERENCE = re.compile(rf"({_STATE}|{_INPUT})(\..*)?", re.DOTALL)
_MOST_NAMES = MAX_NESTING // 2
_MOST_BYTES = 10 * 1024 * 1024  # of arguments with what they refer to
_FEW = 20  # names that an error tells
_PATTERN = rf"^{_STATE}(\.[^.\x00-\x1f\x7f]+){{1,{_MOST_NAMES}}}$"
_PATH: JSONObject = {"type": "string", "pattern": _PATTERN, "maxLength": MAX_ID}
OUTPUT_PATH: JSONObject = {
    "anyOf": [
        _PATH,
        {
            "type": "object",
            "properties": {"path": _PATH, "method": {"enum": [*get_args(Method)]}},
            "required": ["path"],
            "additionalProperties": False,
        },
    ]
}
"""The schema of an `_outputPath` that a call chooses."""


@value
class OutputPath:
    """The place in the state where a result is written, and how.

    `set` puts it there, `merge` puts its keys into the object there, `push` makes it the last item of the list there,
    `concat` puts its items (or its text) behind those there. Where nothing is yet, an empty one is begun.
    """

    path: StatePath
    method: Method = "set"

    @property
    def written(self) -> JSON:
        """The path as a schema or a call writes it; an object unless the method is `set`."""
        path = ".".join((_STATE, *self.path))
        return path if self.method == "set" else {"path": path, "method": self.method}


@value
class StateWrite:
    """One entry of a state's log: what was written where, in the state of which instance or, with None, of no one."""

    path: StatePath
    method: Method
    value: JSON
    instance: str | None = None


def read_output_path(written: JSON) -> OutputPath:
    """`†state.a.b`, or `{"path": "†state.a.b", "method": "push"}`; raises `InvalidRequest` for anything else."""
    if isinstance(written, str):
        return OutputPath(path=_read_path(written))
    if not isinstance(written, dict) or not written.keys() <= {"path", "method"} or "path" not in written:
        raise InvalidRequest(
            f"An output path is {_STATE}.name, or an object with path and method, not {brief_value(written)}."
        )
    method = written.get("method", "set")
    if method not in get_args(Method):
        raise InvalidRequest(
            f"The method of an output path is one of {', '.join(get_args(Method))}, not {brief_value(method)}."
        )
    return OutputPath(path=_read_path(written["path"]), method=cast("Method", method))


def _read_path(written: JSON) -> StatePath:
    if not isinstance(written, str) or len(written) > MAX_ID or not re.fullmatch(_PATTERN, written):
        raise InvalidRequest(
            f"A path into the state is {_STATE}.name or {_STATE}.name.name, of at most {MAX_ID} characters and "
            f"{_MOST_NAMES} names, not {brief_value(written)}."
        )
    return tuple(written.split(".")[1:])


def read_state(writes: Sequence[StateWrite], path: StatePath = (), instance: str | None = None) -> JSON:
    """The value at a path now, of one instance's state; the whole state for the empty path.

    The log is looked through from its newest entry to the one that has set the place. Raises `NotFound` where nothing
    is there, naming the path.
    """
    try:
        return _reach(_state_for(writes, path, instance), _STATE, path)
    except NotFound:  # to be said with the names that are there
        return _reach(_state_for(writes, (), instance), _STATE, path)


def add_write(writes: Sequence[StateWrite], write: StateWrite) -> tuple[StateWrite, ...]:
    """The log with one entry more.

    Raises `InvalidRequest`, naming the path, for a value that the method or the place does not fit, and for a state
    that would become nested deeper than 64 levels or larger than there may be; `InvalidJSON` for what is no JSON.
    """
    if not write.path:
        raise InvalidRequest(f"A result is written to a name in the state, such as {_STATE}.name.")
    entry = StateWrite(
        path=write.path, method=write.method, value=plain(write.value), instance=write.instance
    )
    state = _apply(_state_for(writes, (), write.instance), entry)
    where = _spell(_STATE, write.path)
    if has_more_values(state, MAX_JSON_VALUES) or surely_longer(state, MAX_STATE):
        raise InvalidRequest(
            f"With {where} the state would have more than {MAX_JSON_VALUES} values or {MAX_STATE} bytes."
        )
    if deeper(state, MAX_NESTING):
        raise InvalidRequest(f"With {where} the state would be nested deeper than {MAX_NESTING} levels.")
    return (*writes, entry)


def _state_for(writes: Sequence[StateWrite], path: StatePath, instance: str | None) -> JSON:
    """The state as far as the path needs it: what touches the path, from the newest write that has set it on."""
    touching: list[StateWrite] = []
    for write in reversed(writes):
        length = min(len(write.path), len(path))
        if write.instance != instance or write.path[:length] != path[:length]:
            continue
        touching.append(write)
        if write.method == "set" and len(write.path) <= len(path):
            break
    state: JSON = {}
    for write in reversed(touching):
        state = _apply(state, write)
    return state


def _apply(state: JSON, write: StateWrite, depth: int = 0) -> JSON:
    """A copy of the state with the write done; what it does not touch is shared."""
    if depth == len(write.path):
        return _change(state, write)
    if not isinstance(state, dict):
        place = _spell(_STATE, write.path[:depth])
        raise InvalidRequest(
            f"{_spell(_STATE, write.path)} cannot be written: {place} is {type_name(state)}, not an object."
        )
    name = write.path[depth]
    if depth == len(write.path) - 1 and name not in state:
        return {**state, name: _change(_empty(write), write)}
    return {**state, name: _apply(state.get(name, {}), write, depth + 1)}


def _empty(write: StateWrite) -> JSON:
    """Initial value of a method where nothing is."""
    match write.method:
        case "set" | "merge":
            return {}
        case "push":
            return []
        case "concat":
            return "" if isinstance(write.value, str) else []


def _change(old: JSON, write: StateWrite) -> JSON:
    match write.method, old, write.value:
        case "set", _, new:
            return new
        case "merge", dict(), dict(new):
            return {**old, **new}
        case "push", list(), new:
            return [*old, new]
        case "concat", list(), list(new):
            return [*old, *new]
        case "concat", str(), str(new):
            return old + new
        case method, _, new:
            raise InvalidRequest(
                f"{type_name(new).capitalize()} cannot be written to {_spell(_STATE, write.path)} by {method}: "
                f"there is {type_name(old)}."
            )


def resolve_references(arguments: JSONObject, state: JSON, given: JSONObject) -> JSONObject:
    """The arguments with every text `†state.a` or `†input.a` replaced by the value that is there.

    A reference is the whole of a text; list items are named by their number. What a value holds itself is not looked
    at again. Raises `ArgumentFault` naming each argument and path where nothing is, and for arguments that become
    larger than there may be.
    """
    faults = _size_faults(arguments)
    if faults:
        raise ArgumentFault(faults)
    roots: dict[str, JSON] = {_STATE: state, _INPUT: given}

    def resolve(part: JSON, path: Path) -> JSON:
        if isinstance(part, dict):
            return {name: resolve(each, (*path, name)) for name, each in part.items()}
        if isinstance(part, list):
            return [resolve(each, (*path, number)) for number, each in enumerate(part)]
        match = _REFERENCE.fullmatch(part) if isinstance(part, str) else None
        if match is None:
            return part
        root, names = match[1], tuple((match[2] or "").split(".")[1:])
        try:
            return _reach(roots[root], root, names)
        except NotFound as error:
            faults.append(Fault(path, f"refers to nothing: {error.message.rstrip('.')}"))
            return None

    resolved = {name: resolve(each, (name,)) for name, each in arguments.items()}
    faults = faults or _size_faults(resolved)
    if faults:
        raise ArgumentFault(faults)
    return resolved


def _size_faults(arguments: JSONObject) -> list[Fault]:
    """What makes the arguments larger than they may be; their references may repeat a large value."""
    if has_more_values(arguments, MAX_JSON_VALUES) or surely_longer(arguments, _MOST_BYTES):
        text = f"hold, with what they refer to, more than {MAX_JSON_VALUES} values or {_MOST_BYTES} bytes"
        return [Fault((), text)]
    if deeper(arguments, MAX_NESTING):
        return [Fault((), f"with what they refer to nested deeper than {MAX_NESTING} levels")]
    return []


def _reach(value: JSON, root: str, names: Sequence[str]) -> JSON:
    """The value at the end of the path; raises `NotFound` with what is there at its last good step."""
    for number, name in enumerate(names):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            there = ", ".join([*value][:_FEW]) if isinstance(value, dict) else ""
            kind = f"has only {there}" if there else f"is {type_name(value)} without it"
            raise NotFound(
                f"There is no {_spell(root, names)}: {_spell(root, names[:number])} {brief(kind)}."
            )
    return value


def _spell(root: str, names: Sequence[str]) -> str:
    return brief(".".join((root, *names)), MAX_ID)
