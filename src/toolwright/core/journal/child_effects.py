"""Effects of a unit on other threads of a family, and on what a thread keeps beside its messages."""

from datetime import datetime

from toolwright.core.env.env import EnvChange, VariablesRequest
from toolwright.core.files.file import FileChange
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.child import ChildEnd
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.run import Run, Side
from toolwright.core.threads.thread import Thread
from toolwright.core.value import value


@value
class ChildEffect:
    """The base of effects on other threads of a family, and on what a thread keeps beside its messages."""

    thread_id: str


@value
class Spawn(ChildEffect):
    """A child thread begins with a message, its files and values, and is woken; once, however often it is asked.

    `told` is what followers of the parent read of it, where no call of the parent says so.
    """

    thread: Thread
    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    told: EventDraft | None = None


@value
class Speak(ChildEffect):
    """A message for a thread: it joins the open run, or `run` is made for it. The thread is woken.

    `report` is the call that waits for the end of the session, None if none does. To a terminated thread nobody
    speaks: the guard `terminated` fails.
    """

    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    report: str | None = None


@value
class Report(ChildEffect):
    """A child's session is over: it stands as `state`, and its parent is told.

    `report` is the call that waits for it: it is settled with `result`, or with the event `late` if its run has gone
    on; None tells the parent's inbox what `notice` says, if anything. If nobody is to be told any more, `report` has
    changed meanwhile.
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
    def told(self) -> tuple[EventDraft, ...]:
        """Events for the parent's followers once the call that waited is settled."""
        return (self.finished,) if self.outcome is None else (self.outcome, self.finished)


@value
class Notify(ChildEffect):
    """Word of a child for the inbox of its parent, with copies of files."""

    notice: Delivery
    files: tuple[FileChange, ...] = ()


@value
class Close(ChildEffect):
    """The thread is terminated: nobody speaks to it any more, and all runs in it and below it are to stop.

    Calls of its own that still hoped for a late result are cancelled.
    """


@value
class CancelChildren(ChildEffect):
    """The open runs of all threads below this one are to stop, and nobody is told of their end.

    Calls that still hoped for a late result of one are cancelled.
    """


@value
class Stop(ChildEffect):
    """All runs of the thread and below it are to stop: it is over, and so is its family."""


@value
class Terminate(ChildEffect):
    """A child is never spoken to again; all runs in it and below it are to stop, and nobody is told of their end."""


@value
class HandOff(ChildEffect):
    """Another agent answers in the thread from now on."""

    agent: str


@value
class Activated(ChildEffect):
    """The prompts of these sides have begun in the thread."""

    sides: tuple[Side, ...]


@value
class BackOff(ChildEffect):
    """The thread's model has failed so many times on end: nothing is asked in it before `until`, None for at once."""

    faults: int
    until: datetime | None


@value
class SetValue(ChildEffect):
    """A value of the thread's own, as JSON text; None takes it away."""

    key: str
    value: str | None


@value
class OpenRequest(ChildEffect):
    """A request for values is opened."""

    request: VariablesRequest


@value
class CloseRequest(ChildEffect):
    """A request is not open any more, if it was."""

    id: str


@value
class ChildLimit(ChildEffect):
    """The thread has fewer than `most` children of that agent that are not terminated, else the guard `room` fails."""

    agent: str
    most: int


@value
class HoldRequest(ChildEffect):
    """A request is still open, and its thread not terminated, else the guard `request` fails."""

    id: str


@value
class TakeRequest(ChildEffect):
    """A request is answered: once, else the guard `request` fails."""

    id: str
