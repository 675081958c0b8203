"""Requests for values on the wire: their shapes, and their JSON (API §3)."""

from collections.abc import Sequence
from typing import Literal

from toolwright.core.env.variable import Variable
from toolwright.core.json_value import JSON
from toolwright.wire.shape import Absent, Shape


class RequiredVariable(Shape, title="VariableShape"):
    """A value that is asked for."""

    name: str
    type: Literal["text", "secret"]
    description: str = ""


class VariablesWanted(Shape):
    """An open request: what was asked for, and the names of it that have no value now."""

    request_id: str
    agent_name: str
    required: tuple[RequiredVariable, ...]
    missing: tuple[str, ...]


class VariablesAnswered(Shape):
    """A request that has all it asked for; the thread of the child that begins with it, if it was for one."""

    request_id: str
    status: Literal["success"] = "success"
    child_thread_id: Absent[str] = None


def required_json(variables: Sequence[Variable]) -> list[JSON]:
    """`[{name, type, description}]`."""
    return [{"name": each.name, "type": each.type, "description": each.description} for each in variables]
