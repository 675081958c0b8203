"""Paths into the state of a request, `†state.a.b`: where a result is written."""

import re
from typing import Literal, TypeAlias, cast, get_args

from toolwright.core.checks import brief_value
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_ID, MAX_NESTING
from toolwright.core.value import value

Method: TypeAlias = Literal["set", "merge", "push", "concat"]
StatePath: TypeAlias = tuple[str, ...]

_STATE = "†state"
_MOST_NAMES = MAX_NESTING // 2
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
