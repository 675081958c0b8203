"""Variables as JSON on the wire (API §3)."""

from collections.abc import Sequence

from toolwright.core.env.variable import Variable
from toolwright.core.json_value import JSON


def required_json(variables: Sequence[Variable]) -> list[JSON]:
    """`[{name, type, description}]`."""
    return [{"name": each.name, "type": each.type, "description": each.description} for each in variables]
