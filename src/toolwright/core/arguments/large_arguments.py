"""Faults of large arguments: looked for among the first items of lists and objects.

The schema's validator makes a value of every fault before it hands over the first, 20 to 70 µs each: a model that
gets ninety thousand items wrong would hold up every other run for seconds.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import jsonschema_rs

from toolwright.core.arguments.faults import Fault, Kind, find_faults
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MOST_FAULTS
from toolwright.core.plain import has_more_values

EXACT = 1_000
"""JSON values: the faults of smaller arguments are all told of."""

_TOO_FEW = (Kind.Required, Kind.MinItems, Kind.MinProperties, Kind.Contains)


def faults_of(validator: jsonschema_rs.Validator, arguments: JSONObject) -> list[Fault]:
    """The faults of arguments that the validator refuses; of large ones some, within the first items."""
    if not has_more_values(arguments, EXACT):
        return find_faults(validator.iter_errors(arguments))
    cut = _first_items(arguments)
    errors = [error for error in validator.iter_errors(cut) if not _made_by_cutting(error, arguments, cut)]
    faults = find_faults(errors)[:MOST_FAULTS]
    if faults:
        return faults
    told = (
        f"fits the schema in the first {MOST_FAULTS} items of its lists and objects, but not in what follows"
    )
    return [Fault((), told)]


def _first_items(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: _first_items(part) for name, part in islice(value.items(), MOST_FAULTS)}
    if isinstance(value, list):
        return [_first_items(part) for part in value[:MOST_FAULTS]]
    return value


def _made_by_cutting(error: jsonschema_rs.ValidationError, whole: JSON, cut: JSON) -> bool:
    """Whether something is missing only because it was cut off."""
    return isinstance(error.kind, _TOO_FEW) and _size(whole, error.instance_path) > _size(
        cut, error.instance_path
    )


def _size(value: Any, path: Iterable[str | int]) -> int:  # JSON, walked by a path of its own
    for step in path:
        value = value[step]
    return len(value)
