"""Inbox events of a thread until one of its runs has processed them, and their delivery."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Record, Stored, Value, changed

InboxType: TypeAlias = Literal[
    "space_message", "plan", "service", "tool_result", "message", "subagent", "call"
]
InboxStatus: TypeAlias = Literal["pending", "processing", "processed", "failed"]

FAULT = "fault"
"""Field of an event of the type `call` with the reason why its input is not valid JSON."""

ORIGIN = "originRunId"
"""Field of an event with the run that caused it, such as the run of a call whose result is late."""

ORIGIN_CALL = "originCallId"
"""Field of an event of a child with the parent's call that it is about, if there is one of that id."""

MAX_ATTEMPTS = 3
"""Maximum number of failed runs of an event before its status is `failed` (D21)."""


class InboxEvent(Record):
    """One event in the inbox, unique per thread and `event_id`; `n` is its position in the thread's inbox.

    A message in the thread itself and an external call have the `run_id` of the run that they joined (D22), and are
    `processed` once they are read. All other events wait for the next run, and are `processing` until that run has
    finished. `attempts` counts the failed runs that read it. `author` is the entity that caused it. `promised` is the
    run that was expected to read it when it arrived. `depth` is the depth of the reading run in a chain of agents that
    wake each other (D15).
    """

    STORED = Stored(key=("thread_id", "event_id"), owner="thread_id")

    thread_id: str
    event_id: str
    type: InboxType
    content: JSONObject
    run_id: str | None = None
    status: InboxStatus = "pending"
    attempts: int = 0
    n: int | None = None
    author: str | None = None
    promised: str | None = None
    depth: int = 0
    created_at: datetime

    def as_read_by(self, run_id: str) -> "InboxChange":
        """Return the change for a run that reads the event."""
        return InboxChange(
            event_id=self.event_id, was=self.status, now="processing", run_id=run_id, attempts=self.attempts
        )

    def processed(self) -> "InboxChange":
        """Return the change for the end of the reading run."""
        return InboxChange(
            event_id=self.event_id,
            was=self.status,
            now="processed",
            run_id=self.run_id,
            attempts=self.attempts,
        )

    def requeued(self, failed: int) -> "InboxChange":
        """Return the change for a failure of the reading run: wait again, or park after too many failures."""
        attempts = self.attempts + failed
        parked = attempts >= MAX_ATTEMPTS
        return InboxChange(
            event_id=self.event_id,
            was=self.status,
            now="failed" if parked else "pending",
            attempts=attempts,
        )

    def parked(self) -> "InboxChange":
        """Return the change that parks the event immediately, because its content cannot be stored."""
        return InboxChange(
            event_id=self.event_id, was=self.status, now="failed", attempts=max(self.attempts, MAX_ATTEMPTS)
        )

    def changed(self, change: "InboxChange") -> "InboxEvent":
        """Return the event after that change."""
        return changed(self, status=change.now, run_id=change.run_id, attempts=change.attempts)


class InboxChange(Value):
    """Transition of an inbox event from one status to another; the other fields are the new values."""

    event_id: str
    was: InboxStatus
    now: InboxStatus
    run_id: str | None = None
    attempts: int = 0


def batch(waiting: Sequence[InboxEvent], run_id: str) -> list[InboxEvent]:
    """Return the events of the next run: messages that joined it, and events without failed attempts.

    An event that has failed a run is retried alone, in its turn (D21).
    """
    own = [event for event in waiting if event.run_id == run_id]
    if not own and waiting and waiting[0].attempts:
        return [waiting[0]]
    return [event for event in waiting if event.run_id == run_id or not event.attempts]


class Delivery(Value):
    """An event for the inbox of an agent's home thread. Creates the thread if it does not exist, and wakes it.

    An event for an `existing` thread is discarded if that thread does not exist.

    The event waits for the next run: the queued run, or `run` with the event `queued` if no run is queued. A terminated
    thread receives nothing; a `required` event fails there with the conflict `terminated`.
    """

    thread: Thread
    event: InboxEvent
    run: Run
    queued: EventDraft
    required: bool = False
    existing: bool = False
