"""Effects of a unit of work on other threads of a thread tree, and on a thread's data other than its messages."""

from datetime import datetime

from toolwright.core.env.env import EnvChange, VariablesRequest
from toolwright.core.files import FileChange
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.child import ChildEnd
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Value


class ChildEffect(Value):
    """Base of effects on other threads of a thread tree, and on a thread's data other than its messages."""

    thread_id: str


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
    terminated.
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


class BackOff(ChildEffect):
    """Record the consecutive failures of the thread's model. No request is sent before `until`; None means no delay."""

    faults: int
    until: datetime | None


class SetValue(ChildEffect):
    """Set a value of the thread, as JSON text; None deletes it."""

    key: str
    value: str | None


class OpenRequest(ChildEffect):
    """Open a request for variables."""

    request: VariablesRequest


class CloseRequest(ChildEffect):
    """Close a request, if it is open."""

    id: str


class ChildLimit(ChildEffect):
    """Check that the thread has fewer than `most` unterminated children of that agent. Conflict: `room`."""

    agent: str
    most: int


class CheckRequest(ChildEffect):
    """Check that a request is still open, and its thread not terminated. Conflict: `request`."""

    id: str


class FulfillRequest(ChildEffect):
    """Fulfill a request, once. Conflict: `request`, if it is not open."""

    id: str
