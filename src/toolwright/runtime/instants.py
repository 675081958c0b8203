"""Kinds of tools whose calls are decided at once, without any outside world."""

from collections.abc import Mapping

from toolwright.core.prepared import PreparedCall
from toolwright.core.result import Outcome, Pending
from toolwright.core.tool import Kind
from toolwright.runtime.calls import Instant


def wait_outside(prepared: PreparedCall) -> Outcome:
    """Someone outside carries the call out and submits its result (S3 `external`)."""
    return Pending(wait=prepared.tool.timeout)  # never None: such a tool is refused


INSTANTS: Mapping[Kind, Instant] = {"external": wait_outside}
