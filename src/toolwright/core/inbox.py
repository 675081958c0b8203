"""What waits for a thread until one of its runs reads it."""

from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.json_value import JSONObject
from toolwright.core.value import value

InboxType: TypeAlias = Literal["space_message", "plan", "service", "tool_result", "message", "subagent"]
InboxStatus: TypeAlias = Literal["pending", "processing", "processed", "failed"]


@value
class InboxEvent:
    """One waiting event, unique per thread and `event_id`; `n` is its place in the thread's inbox.

    A message of the thread's own carries the `run_id` that it joined (D22); all others wait for the next run.
    """

    thread_id: str
    event_id: str
    type: InboxType
    content: JSONObject
    run_id: str | None = None
    status: InboxStatus = "pending"
    attempts: int = 0
    n: int | None = None
    created_at: datetime
