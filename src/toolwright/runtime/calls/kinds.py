"""Kinds of tools whose calls are decided at once, without any outside world."""

from collections.abc import Mapping
from typing import Protocol

from toolwright.core.results.result import Outcome, Pending
from toolwright.core.tools.pipeline import internal_result
from toolwright.core.tools.prepared import PreparedCall
from toolwright.core.tools.tool import Kind


class Instant(Protocol):
    """Decides a call of its kind without any wait or outside world."""

    def __call__(self, prepared: PreparedCall) -> Outcome: ...


def wait_outside(prepared: PreparedCall) -> Outcome:
    """Someone outside carries the call out and submits its result, a service or a person (S3 `isAsync`)."""
    tool = prepared.tool
    return Pending(wait=None if tool.is_async else tool.timeout, expires_in=tool.expires_in)


INSTANTS: Mapping[Kind, Instant] = {
    "internal": internal_result,
    "external": wait_outside,
    "space": wait_outside,
}
"""The decision order of a call (S3, D8). What goes over HTTP is not here: `Tool.carrier` names its executor."""
