"""Requests for values: what a parked run, or a child that cannot begin without them, waits for (D4, S0 §6)."""

from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.env.variable import Variable
from toolwright.core.json_value import JSONObject
from toolwright.core.value import value

RequestKind: TypeAlias = Literal["run", "child"]


@value
class VariablesRequest:
    """Variables that somebody is asked for, in the thread `thread_id`.

    One of the kind `run` is that of the thread's own parked run. One of the kind `child` belongs to the parent:
    `child` says which thread is to begin once the values are there, and `expires_at` until when.
    """

    id: str
    thread_id: str
    kind: RequestKind
    agent: str
    required: tuple[Variable, ...]
    child: JSONObject | None = None
    expires_at: datetime | None = None
    created_at: datetime
