"""Paths into the state of a request, `†state.a.b`: reading, writing and references.

A state is an object: one for each instance of a request, and one for calls without an instance. Its fields are stored
as values of the thread under the keys that `value_key` returns.
"""

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, cast, get_args

from toolwright.core.arguments.errors import FieldError, InvalidArguments, type_name
from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.json_text import TooManyValues, ValueCount
from toolwright.core.json_value import (
    JSON,
    JSONObject,
    Path,
    deeper,
    dumps,
    dumps_unescaped,
    has_more_values,
    plain,
    surely_longer,
)
from toolwright.core.limits import MAX_ID, MAX_JSON_VALUES, MAX_NESTING, MAX_STATE
from toolwright.core.state.checks import key as checked_key
from toolwright.core.text import brief
from toolwright.core.value import Value

Method: TypeAlias = Literal["set", "merge", "push", "concat"]
StatePath: TypeAlias = tuple[str, ...]

MARK = "†"
"""First character of every reference, and of the keys of values that belong to an instance."""

_STATE = f"{MARK}state"
_INPUT = f"{MARK}input"
_REFERENCE = re.compile(rf"({_STATE}|{_INPUT})(\..*)?", re.DOTALL)
_MAX_NAMES = MAX_NESTING // 2
_MAX_BYTES = 10 * 1024 * 1024  # of arguments with references
_FEW = 20  # maximum names in an error message
_PATTERN = rf"^{_STATE}(\.[^.\x00-\x1f\x7f]+){{1,{_MAX_NAMES}}}$"
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
"""The schema of an `_outputPath` chosen by a call."""


class OutputPath(Value):
    """The path in the state at which a result is written, and the method.

    `set` replaces the value at the path. `merge` adds the result's keys to the object at the path, `push` appends the
    result to the list, `concat` appends its items (or its text) to the value. A missing value is created empty.
    """

    path: StatePath
    method: Method = "set"

    @property
    def written(self) -> JSON:
        """The path as written in a schema or a call; an object unless the method is `set`."""
        path = ".".join((_STATE, *self.path))
        return path if self.method == "set" else {"path": path, "method": self.method}

    @property
    def spelling(self) -> str:
        """The path without the method, for error messages."""
        return _spell(_STATE, self.path)


def read_output_path(written: JSON) -> OutputPath:
    """Parse `†state.a.b`, or `{"path": "†state.a.b", "method": "push"}`. Raises `InvalidRequest` for anything else."""
    if isinstance(written, str):
        return OutputPath(path=_read_path(written))
    if not isinstance(written, dict) or not written.keys() <= {"path", "method"} or "path" not in written:
        raise InvalidRequest(
            f"An output path must be {_STATE}.name, or an object with path and method, not {brief_value(written)}."
        )
    method = written.get("method", "set")
    if method not in get_args(Method):
        raise InvalidRequest(
            f"The method of an output path must be one of {', '.join(get_args(Method))}, not {brief_value(method)}."
        )
    return OutputPath(path=_read_path(written["path"]), method=cast("Method", method))


def _read_path(written: JSON) -> StatePath:
    if not isinstance(written, str) or len(written) > MAX_ID or not re.fullmatch(_PATTERN, written):
        raise InvalidRequest(
            f"A path into the state must be {_STATE}.name or {_STATE}.name.name, of at most {MAX_ID} characters and "
            f"{_MAX_NAMES} names, not {brief_value(written)}."
        )
    return tuple(written.split(".")[1:])


def value_key(name: str, instance: str | None) -> str:
    """Return the key under which a state field is stored in the thread; `instance` is None for no instance.

    Raises `InvalidRequest` for a key of more than 200 characters, and for a name that would collide with another key.
    """
    if instance is None and not (name.startswith(MARK) and "." in name):
        return checked_key(name)
    if instance is None or "." in name:
        raise InvalidRequest(
            f"The key {brief_value(name)} is not valid in this call. A key of an instance must not contain a dot. Any "
            f"other key must not begin with {MARK} and contain a dot."
        )
    return checked_key(f"{MARK}{name}.{instance}")


def read_value_key(key: str) -> tuple[str, str | None]:
    """Return the field of the state and the instance that belong to a value's key."""
    name, dot, instance = key.removeprefix(MARK).partition(".")
    return (name, instance) if key.startswith(MARK) and dot else (key, None)


def read_state(state: JSONObject, path: StatePath) -> JSON:
    """Return the value at a path. Raises `NotFound`, naming the path, if it does not exist."""
    return reach(state, _STATE, path)


def written(state: JSONObject, place: OutputPath, value: JSON) -> JSONObject:
    """Return a copy of the state with the value written at the path. Unchanged parts are shared.

    Raises `InvalidRequest`, naming the path, for a value that does not fit the method or the position, and for a state
    that would be nested deeper than 64 levels or too large. Raises `InvalidJSON` for a value that is not JSON.
    """
    if not place.path:
        raise InvalidRequest(f"A result must be written to a name in the state, such as {_STATE}.name.")
    after = _write(state, place, plain(value))
    assert isinstance(after, dict), "a name in the state was written"
    if _is_large(dumps(after)):
        raise InvalidRequest(
            f"With {place.spelling} the state would have more than {MAX_JSON_VALUES} values or {MAX_STATE} bytes."
        )
    if deeper(after, MAX_NESTING):
        raise InvalidRequest(
            f"With {place.spelling} the state would be nested deeper than {MAX_NESTING} levels."
        )
    return after


def _is_large(text: str) -> bool:
    """Return whether the JSON text of a state is too long, or has too many values."""
    if len(text) > MAX_STATE:
        return True
    try:
        ValueCount(MAX_JSON_VALUES).add(text.encode("utf-8", "replace"))
    except TooManyValues:
        return True
    return False


def _write(state: JSON, place: OutputPath, value: JSON, depth: int = 0) -> JSON:
    """Return a copy of the value at the first `depth` names of the path, with the new value written."""
    if depth == len(place.path):
        return _change(state, place, value)
    if not isinstance(state, dict):
        parent = _spell(_STATE, place.path[:depth])
        raise InvalidRequest(
            f"{place.spelling} cannot be written: {parent} is {type_name(state)}, not an object."
        )
    name = place.path[depth]
    if depth == len(place.path) - 1 and name not in state:
        return {**state, name: _change(_empty(place.method, value), place, value)}
    return {**state, name: _write(state.get(name, {}), place, value, depth + 1)}


def _empty(method: Method, value: JSON) -> JSON:
    """Return the value with which a method starts at a path without a value."""
    match method:
        case "set" | "merge":
            return {}
        case "push":
            return []
        case "concat":
            return "" if isinstance(value, str) else []


def _change(old: JSON, place: OutputPath, value: JSON) -> JSON:
    match place.method, old, value:
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
                f"{type_name(new).capitalize()} cannot be written to {place.spelling} by {method}: "
                f"its value is {type_name(old)}."
            )


def may_refer(arguments: str) -> bool:
    """Return whether the JSON text of arguments can contain a reference."""
    return MARK in arguments or r"\u2020" in arguments


def has_references(part: JSON) -> bool:
    """Return whether the value contains a reference."""
    if isinstance(part, str):
        return _REFERENCE.fullmatch(part) is not None
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return any(map(has_references, parts))


def resolve_references(arguments: JSONObject, state: JSONObject, given: JSONObject) -> JSONObject:
    """Return the arguments with every text `†state.a` or `†input.a` replaced by a copy of the referenced value.

    A reference is a complete text; list items are addressed by index. Referenced values are not resolved further.
    Raises `InvalidArguments` with each argument and path that does not exist, and for arguments that become too large.
    """
    errors = _size_errors(arguments, _MAX_BYTES)
    if errors:
        raise InvalidArguments(errors)
    most = len(dumps_unescaped(arguments)) + MAX_STATE
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
            return reach(roots[root], root, names)
        except NotFound as error:
            errors.append(FieldError(path, f"refers to nothing: {error.message.rstrip('.')}"))
            return None

    resolved = {name: resolve(each, (name,)) for name, each in arguments.items()}
    errors = errors or _size_errors(resolved, most)
    if errors:
        raise InvalidArguments(errors)
    return {name: _copy(each) for name, each in resolved.items()}


def _copy(part: JSON) -> JSON:
    """Return a copy that a handler can change without changing the state."""
    if isinstance(part, dict):
        return {name: _copy(each) for name, each in part.items()}
    return [_copy(each) for each in part] if isinstance(part, list) else part


def _size_errors(arguments: JSONObject, most: int) -> list[FieldError]:
    """Return the errors of arguments that are too large. Their references can repeat a large value."""
    if has_more_values(arguments, MAX_JSON_VALUES) or surely_longer(arguments, most):
        values = f"hold, with what they refer to, more than {MAX_JSON_VALUES} values"
        return [FieldError((), f"{values}, or refer to more than {MAX_STATE} bytes")]
    if deeper(arguments, MAX_NESTING):
        return [FieldError((), f"with what they refer to nested deeper than {MAX_NESTING} levels")]
    return []


def reach(value: JSON, root: str, names: Sequence[str]) -> JSON:
    """Return the value at the path. Raises `NotFound`, which names the last existing step."""
    for number, name in enumerate(names):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            existing = ", ".join([*value][:_FEW]) if isinstance(value, dict) else ""
            kind = f"has only {existing}" if existing else f"is {type_name(value)} without it"
            raise NotFound(
                f"There is no {_spell(root, names)}: {_spell(root, names[:number])} {brief(kind)}."
            )
    return value


def _spell(root: str, names: Sequence[str]) -> str:
    return brief(".".join((root, *names)), MAX_ID)
