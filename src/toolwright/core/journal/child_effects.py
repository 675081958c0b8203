"""Effects of a unit of work on other threads of a thread tree, and on a thread's data other than its messages."""

from collections.abc import Mapping
from datetime import datetime

from toolwright.core.env.env import Asked, EnvChange, VariablesRequest
from toolwright.core.files import FileChange
from toolwright.core.journal.rows import (
    Add,
    Clear,
    Delete,
    Find,
    GuardFailed,
    Move,
    NoneOf,
    Put,
    RowEffect,
    Rule,
)
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.core.threads.child import ENDED, ChildEnd
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.thread import Thread, ThreadValue


class ChildEffect(RowEffect):
    """Base of effects on other threads of a thread tree, and on a thread's data other than its messages."""

    thread_id: str

    @property
    def _thread(self) -> dict[str, object]:
        return {"id": self.thread_id}

    def rule(self, at: datetime) -> Rule[None]:
        """Yield the row operations. Effects on more than one thread have programs of their own in the store."""
        raise TypeError(f"No store can apply the effect {type(self).__name__}.")


class Spawn(ChildEffect):
    """Create a child thread with a message, its files and values, and wake it. Idempotent.

    `told` is the event for the parent's subscribers, if no call of the parent reports the child.
    """

    thread: Thread
    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    told: EventDraft | None = None


class Speak(ChildEffect):
    """Send a message to a thread: it joins the open run, or `run` is created for it. Wakes the thread.

    `report` is the call that waits for the end of the session, or None. Conflict: `terminated`, if the thread is
    terminated; `busy`, if `run` has deps and the open run has others.
    """

    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    report: str | None = None


class Report(ChildEffect):
    """End a child's session with `state`, and notify its parent.

    `report` is the call that waits for the end. It is settled with `result`, or with the event `late` if its run has
    continued. If `report` is None, `notice` is delivered to the parent's inbox, if given. If the parent must no longer
    be notified, the stored `report` has changed in the meantime.
    """

    parent: Thread
    state: ChildEnd
    report: str | None
    result: JSONObject | None
    outcome: EventDraft | None
    late: InboxEvent | None
    notice: Delivery | None
    finished: EventDraft
    files: tuple[FileChange, ...] = ()

    @property
    def followers_events(self) -> tuple[EventDraft, ...]:
        """Return the events for the parent's followers after the waiting call is settled."""
        return (self.finished,) if self.outcome is None else (self.outcome, self.finished)


class Notify(ChildEffect):
    """Deliver a message of a child to the inbox of its parent, with copies of files."""

    notice: Delivery
    files: tuple[FileChange, ...] = ()


class Close(ChildEffect):
    """Terminate the thread: it accepts no more messages, and all runs in it and its descendants are stopped.

    Its own calls that still accept a late result are cancelled.
    """


class CancelChildren(ChildEffect):
    """Stop the open runs of all descendants without notifying anyone.

    Their calls that still accept a late result are cancelled.
    """


class Stop(ChildEffect):
    """Stop all runs of the thread and its descendants: the whole thread tree has ended."""


class Terminate(ChildEffect):
    """Permanently terminate a child, and stop all runs in it and its descendants without a report."""


class HandOff(ChildEffect):
    """Make another agent answer in the thread."""

    agent: str


class Activated(ChildEffect):
    """Record that the prompts of these sides have been activated in the thread."""

    sides: tuple[Side, ...]

    def rule(self, at: datetime) -> Rule[None]:
        yield Move(kind=Thread, where=self._thread, fields={"activated": self.sides}, guard="thread")


class BackOff(ChildEffect):
    """Record the consecutive failures of the thread's model. No request is sent before `until`; None means no delay."""

    faults: int
    until: datetime | None

    def rule(self, at: datetime) -> Rule[None]:
        fields = {"faults": self.faults, "not_before": self.until}
        yield Move(kind=Thread, where=self._thread, fields=fields, guard="thread")


class SetValue(ChildEffect):
    """Set a value of the thread, as JSON text; None deletes it."""

    key: str
    value: str | None

    def rule(self, at: datetime) -> Rule[None]:
        if self.value is None:
            yield Delete(kind=ThreadValue, key=(self.thread_id, self.key))
        else:
            yield Put(record=ThreadValue(thread_id=self.thread_id, key=self.key, value=self.value))


class ChangeCall(ChildEffect):
    """Change fields of a call of the thread that no transition changes, or its result after it was settled."""

    call_id: str
    fields: Mapping[str, object]

    def rule(self, at: datetime) -> Rule[None]:
        where = {"id": self.call_id, "thread_id": self.thread_id}
        yield Move(kind=Call, where=where, fields=self.fields, guard="call")


def change_call(call: Call, *names: str) -> ChangeCall:
    """Return the effect that gives the stored call these fields of `call`."""
    fields = {name: getattr(call, name) for name in names}
    return ChangeCall(thread_id=call.thread_id, call_id=call.id, fields=fields)


class OpenRequest(ChildEffect):
    """Open a request for variables."""

    request: VariablesRequest

    def rule(self, at: datetime) -> Rule[None]:
        request = self.request
        yield Add(record=request, guard=None)
        if request.kind == "run":
            ids = {"request_id": request.id, "thread_id": request.thread_id}
            yield [Add(record=Asked(name=each.name, **ids), guard=None) for each in request.required]


class CloseRequest(ChildEffect):
    """Close a request, if it is open."""

    id: str

    def rule(self, at: datetime) -> Rule[None]:
        yield Delete(kind=VariablesRequest, key=(self.id,))
        yield Clear(kind=Asked, where={"request_id": self.id})


class ChildLimit(ChildEffect):
    """Check that the thread has fewer than `most` unterminated children of that agent. Conflict: `room`."""

    agent: str
    most: int

    def rule(self, at: datetime) -> Rule[None]:
        ours = {"parent_id": self.thread_id, "agent": self.agent, "state": NoneOf(values=ENDED)}
        if len((yield Find(kind=Thread, where=ours, columns=("id",)))) >= self.most:
            raise GuardFailed("child_limit")


class CheckRequest(ChildEffect):
    """Check that a request is still open, and its thread not terminated. Conflict: `request`."""

    id: str

    def rule(self, at: datetime) -> Rule[None]:
        columns = ("thread_id",)
        where = {"id": self.id}
        [row] = yield Find(
            kind=VariablesRequest, where=where, columns=columns, lock="update", guard="request"
        )
        living = {"id": row.thread_id, "state": NoneOf(values=ENDED)}
        yield Find(kind=Thread, where=living, columns=("id",), guard="request")


class FulfillRequest(ChildEffect):
    """Fulfill a request, once. Conflict: `request`, if it is not open."""

    id: str

    def rule(self, at: datetime) -> Rule[None]:
        yield Delete(kind=VariablesRequest, key=(self.id,), guard="request")
        yield Clear(kind=Asked, where={"request_id": self.id})
