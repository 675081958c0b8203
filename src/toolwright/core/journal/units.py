"""Units of work: the transactions of the journal, each a named value that is applied as a whole or not at all.

A worker's unit is an `Advance`: it is fenced by the thread's `(epoch, seq)`, so a worker that has lost the thread can
no longer write. The other units come from outside a run: they never change a thread's messages, only inbox rows, call
rows, files, env, flags and wake-ups. Changes of spaces and timers are the `effects` of both. A store answers
`Committed`, or `Conflict` with the failed precondition, in which case nothing was written.

Every unit locks in the same order: a configured agent, threads by id (including those of its effects), calls, runs,
inbox, files, entities, env, wakes; then its effects: spaces, other inboxes, timers, and the counter of spaces' events
last.
"""

from datetime import datetime, timedelta
from typing import Literal

from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.files import FileChange
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.rows import Guard
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import Entity
from toolwright.core.threads.call import Call, CallMove
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import InboxChange, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Step
from toolwright.core.threads.thread import Thread
from toolwright.core.value import Record, Stored, Value

IDLE = (
    "No living process executes the runs of this database: start one with `toolwright work`, or with "
    "`toolwright serve` without --no-work."
)


ALIVE = timedelta(seconds=10)  # since the last heartbeat of a node


class Node(Record):
    """A process of a cluster: its version, its slots for runs and how many are busy, and when it was `seen` last.

    `skew` is the number of microseconds by which its clock is ahead of the database's clock. `keys` are the
    comma-separated names of its encryption keys, the encrypting key first. `files` is the digest of a probe in its file
    store. `address` is the URL at which other processes reach it, or its host name with its pid. `alike` are settings
    that all nodes must share: the message transport, and a digest of the secret keys.
    """

    STORED = Stored(key=("id",))

    id: str
    version: str
    slots: int
    busy: int
    seen: datetime
    skew: int = 0
    keys: str = ""
    files: str = ""
    address: str = ""
    alike: str = ""

    def is_alive(self, now: datetime) -> bool:
        """Return whether the node has had a recent heartbeat."""
        return self.seen > now - ALIVE


class Leaving(Value):
    """Release of a thread by its worker: `due` reschedules the wake-up, None deletes it.

    Applied only if the wake-up still has the generation that the worker has read; otherwise the thread is processed
    again.
    """

    gen: int
    due: datetime | None = None


class Unit(Value):
    """Base of all units of work. `token` identifies this one commit, `at` is its timestamp."""

    token: str
    at: datetime


class CreateThread(Unit):
    """Create a thread with its env and tenvs, and with imported messages and their files.

    Conflict: `duplicate`, if its owner has a thread with this key.
    """

    thread: Thread
    env: tuple[EnvChange, ...] = ()
    messages: tuple[Message, ...] = ()
    files: tuple[FileChange, ...] = ()


class RenameThread(Unit):
    """Set the name of a thread; None removes it. Conflict: `thread`, if it does not exist."""

    thread_id: str
    name: str | None


class PostMessage(Unit):
    """Add a message to a thread: it joins the open run, or `run` is created for it. Wakes the thread.

    Conflict: `deps`, if the message brings `deps` and the open run has others. Returns `run_id`: the run that reads it.
    """

    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()
    deps: JSONObject | None = None


class PostCall(PostMessage):
    """Add an external call in `run`, which is created, or reopened if it has completed. Wakes the thread.

    Conflict: `run`, if the run has ended in another way; `busy`, while the thread has another open run.
    """


class SetEnv(Unit):
    """Set or delete env values of a thread or a person from outside a run.

    For a thread it increments `posted`, so that a run in progress re-reads the values. A person must still exist: their
    values are deleted with them. For a person `thread_id` is None, and `entity_id` identifies them. Subscribers of a
    thread, and of its run `run_id`, receive the events `told`.
    """

    thread_id: str | None
    entity_id: str | None = None
    env: tuple[EnvChange, ...]
    effects: tuple[Effect, ...] = ()
    told: tuple[EventDraft, ...] = ()
    run_id: str | None = None


class RequestCancel(Unit):
    """Request the cancellation of an open run. Wakes the thread. The first request sets the run's `decisions`."""

    thread_id: str
    run_id: str
    decisions: tuple[JSONObject, ...] = ()


class Reseal(Unit):
    """Re-encrypt secrets with another key. `rows` are pairs of the stored and the new row.

    A value that has changed in the meantime is left unchanged: it was encrypted with the newest key.
    """

    rows: tuple[tuple[EnvRow, EnvRow], ...]


class RetryRun(Unit):
    """Retry a failed run from its last commit. Wakes the thread.

    Conflict: `run`, if it has not failed or its thread has a later run; `busy`, while a run is open in the thread;
    `terminated`, if the thread's session has ended.
    """

    thread_id: str
    run_id: str
    queued: EventDraft
    decisions: tuple[JSONObject, ...] = ()


class Settle(Unit):
    """Settle an open call from outside its run, by one compare-and-set on its status.

    The result of a call that waits inline is left to its run, which is woken. A pending call becomes the inbox event
    `notice`. `decisions` replace those of the call, unless there are none.
    """

    thread_id: str
    call_id: str
    result: JSONObject
    notice: InboxEvent
    event: EventDraft
    files: tuple[FileChange, ...] = ()
    effects: tuple[Effect, ...] = ()
    decisions: tuple[JSONObject, ...] = ()

    @property
    def outcome(self) -> Literal["resolved", "expired", "cancelled"]:
        """The final status of the call."""
        raise TypeError("Settle is abstract: use Submit, Expire or CancelCall.")


class SubmitResult(Settle):
    """Submit the result of an open call that does not wait for an approval, before it expires."""

    @property
    def outcome(self) -> Literal["resolved"]:
        return "resolved"


class Expire(Settle):
    """Expire an open call whose deadline has passed."""

    @property
    def outcome(self) -> Literal["expired"]:
        return "expired"


class CancelCall(Settle):
    """Cancel an open call."""

    @property
    def outcome(self) -> Literal["cancelled"]:
        return "cancelled"


class LeaseCall(Unit):
    """Claim an open call for a worker, if it is unclaimed, or its lease has expired and it is repeatable (D25)."""

    call_id: str
    worker: str
    until: datetime


class Apply(Unit):
    """Apply effects from outside a run: actions of people and services in spaces, and actions of timers."""

    effects: tuple[Effect, ...]


class RetryEvent(Unit):
    """Retry a failed inbox event as if it were new. Wakes the thread."""

    thread_id: str
    event_id: str


class Leave(Unit):
    """Release a thread that has nothing to do, or whose worker pauses."""

    thread_id: str
    leaving: Leaving


class Advance(Unit):
    """Commit progress of a thread's run. `epoch` and `seq` are the fencing values that the worker holds.

    `run` is the run's complete new row, except for fields that others write. `messages` take the positions after `seq`.
    `calls` are inserted, and so are `nested` calls, made by other calls; `changes` are transitions. The inbox events
    `read` are marked as processed; `inbox` are other changes of inbox events. The messages at the positions `dropped`
    are kept only as records; `edited` replaces the text of messages. `files` and `env` were written by handlers.

    A unit whose `run` has finished ends it: no joined message may be unread then. `leaving` releases the thread in the
    same commit. In a cluster, a unit that starts a hold names the `node` that must have leased the thread: a process
    that was frozen cannot take a run back from its successor. `was` is the run of the last unit committed within this
    hold, or None: a store may write only the columns that differ from it. A caller that changes its run between two
    units still passes the committed one.
    """

    thread_id: str
    epoch: int
    seq: int
    run: Run
    messages: tuple[Message, ...] = ()
    calls: tuple[Call, ...] = ()
    nested: tuple[Call, ...] = ()
    changes: tuple[CallMove, ...] = ()
    read: tuple[str, ...] = ()
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    inbox: tuple[InboxChange, ...] = ()
    dropped: tuple[int, ...] = ()
    edited: tuple[Message, ...] = ()
    step: Step | None = None
    events: tuple[EventDraft, ...] = ()
    effects: tuple[Effect, ...] = ()
    leaving: Leaving | None = None
    node: str | None = None
    was: Run | None = None


class Claim(Advance):
    """Claim a queued or suspended run. Increments the thread's epoch.

    With `opens` the run is new, created for waiting inbox events of a thread without an open run. A new `run` that has
    ended never started, because its input could not be read. The claim of a suspended run can also record the result
    that it has waited for.
    """

    opens: bool = False


class Takeover(Advance):
    """Recover a run whose process has died. Increments the thread's epoch and the run's crash count."""


class Answer(Advance):
    """Record an answer of the model. Its first call is marked as started."""


class Result(Advance):
    """Record the result of a call. The next call is marked as started."""


class Park(Advance):
    """Suspend the run until it is woken."""


class Release(Advance):
    """Release the run to another process, because this process stops."""


class Finish(Advance):
    """End the run with a status that was not caused by an answer or a result: failed or cancelled."""


class SaveEntity(Unit):
    """Insert or update a person. In an update, `was` must be the stored row."""

    entity: Entity
    was: Entity | None = None


class DropEntity(Unit):
    """Delete a person; their threads are kept. The spaces that they leave receive the events `told`."""

    entity_id: str
    told: tuple[EventDraft, ...] = ()


class SaveAgent(Unit):
    """Insert or update the configuration of an agent. In an update, `was` is the revision that it replaces."""

    agent: ConfiguredAgent
    was: int | None = None
    env: tuple[EnvChange, ...] = ()


class DropAgent(Unit):
    """Delete a configured agent and its mind. Open runs finish with the configuration with which they started.

    Calls that still accept a late result for it are cancelled, as by `CancelCall`, but nothing is delivered to an inbox
    that no one reads. The same applies to each call that a unit would make `pending` afterwards. `author` is the agent
    as shown in the spaces that show its calls. The spaces that it leaves receive the events `told`.
    """

    agent_id: str
    entity_id: str
    author: Entity | None = None
    told: tuple[EventDraft, ...] = ()


class CancelOrphans(Unit):
    """Cancel pending calls of threads whose agent was deleted by a version that did not cancel them.

    Returns `count`: the number of such threads.
    """

    thread_ids: tuple[str, ...]


class SignOut(Unit):
    """Sign out sessions of the console at the time `at`: the session with the id `key`, or all sessions of a caller.

    The row is kept until the sessions would have expired; expired rows are deleted.
    """

    key: str
    until: datetime


class SignedOut(Record):
    """A session or a caller of the console that was signed out at the time `at`, or a key that was used."""

    STORED = Stored(key=("key",))

    key: str
    at: datetime
    until: datetime


class UseOnce(Unit):
    """Record that a key was used. Conflict: `duplicate`, if it was used before.

    The row is kept until `until`, in the table of `SignOut`.
    """

    key: str
    until: datetime


class Probe(Unit):
    """Write a row without any other effect, to check that the journal can be written."""


class Committed(Value):
    """The unit of work was committed.

    `run_id` is the run that a message joined or the one created for it. For an `Advance`: `posted` counts all events
    ever added to the thread's inbox, `cancel_requested` is true if the run's cancellation was requested, `left` is true
    if `leaving` was applied. `route` is the destination of a settled call's result. `count` is the number of rows that
    `Prune` deleted or `Reseal` changed, or of effects on spaces that found their target. `seq` is the position of the
    last message posted in a space, `runs` are the runs that read delivered events, by thread.
    """

    run_id: str | None = None
    posted: int = 0
    cancel_requested: bool = False
    left: bool = True
    route: Literal["inline", "inbox"] | None = None
    count: int = 0
    seq: int | None = None
    runs: tuple[tuple[str, str], ...] = ()


class Conflict(Value):
    """A precondition failed; nothing was written."""

    guard: Guard
