"""Units of work: everything that can happen to the journal, each a named value that is applied whole or not.

A unit that a drain makes is an `Advance`: it is fenced by the thread's `(epoch, seq)`, so that whoever lost the
thread can no longer write. The others come from outside a drain: they never touch a thread's messages, only
inbox rows, call rows, files, env, flags and wakes. What happens in spaces and to timers are the `effects` of
both. A store answers `Committed`, or `Conflict` with the guard that failed, in which case the unit has left no trace.

Every unit locks in one order: a configured agent, threads by id, its effects' among them, calls, runs, inbox, files,
entities, env, wakes; its effects after that: spaces, other inboxes, timers, and the counter of spaces' events last.
"""

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from toolwright.core.agents.config import ConfiguredAgent
from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.files.file import FileChange
from toolwright.core.journal.effects import Effect
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces.space import Entity, FrontEnd
from toolwright.core.threads.call import Call, CallChange
from toolwright.core.threads.event import EventDraft
from toolwright.core.threads.inbox import InboxChange, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Step
from toolwright.core.threads.thread import Thread
from toolwright.core.value import value

Guard: TypeAlias = Literal[
    "duplicate",  # a row with this id, or with this external id, is there already
    "thread",  # there is no such thread
    "terminated",  # nobody speaks to the thread any more
    "lease",  # another node of the cluster has the thread now
    "fence",  # the thread is somebody else's now, or has moved on
    "call",  # a call is not in the status that the unit saw
    "run",  # the run is not in a status that the unit can act on
    "inbox",  # an inbox event is not in the status that the unit saw
    "unread",  # a message that joined the run has not been read
    "file",  # there is a file at this path already
    "entity",  # there is no such entity, or it has changed since it was read
    "space",  # there is no such space, or it or its membership has changed since it was read
    "member",  # the entity is not in the space
    "agent",  # there is no such configured agent, or it has changed since it was read
    "front_end",  # there is no such front-end
    "mind",  # what an agent keeps has changed since it was read, or there would be more of it than may be
    "plan",  # there is no such plan, or it has changed since it was read
    "block",  # there is no such memory block
    "passage",  # there is no such passage
    "compaction",  # the conversation was shortened in the meantime, or its summary was edited
    "mcp_tool",  # no such definition of the tool waits any more
    "message",  # there is no such message in the space or the thread, or too many are pinned
    "busy",  # a thread that was idle is running now
    "request",  # there is no such request any more
    "child_limit",  # there are as many children as there may be
    "cancel",  # the run was asked to cancel, and this unit would end it otherwise
]


@value
class Wake:
    """Word that a thread has work to do at `due`; `gen` tells a wake from those before it.

    `node` is the node of a cluster that has leased the thread, None if none has.
    """

    thread_id: str
    due: datetime
    gen: int = 0
    node: str | None = None


ALIVE = timedelta(seconds=10)  # since the last heartbeat of a node
IDLE = (
    "No living process executes the runs of this database: start one with `toolwright work`, or with "
    "`toolwright serve` without --no-work."
)


@value
class Node:
    """A process of a cluster: its version, its slots for runs and how many are busy, and when it was `seen` last.

    `skew` is by how many microseconds its clock is ahead of the database's, `keys` the names of its encryption keys,
    the one that seals first, with commas, and `files` the digest of bytes that are among its files. `address` is the
    URL at which other processes reach it, or the name of its machine with its pid. `alike` are settings that all nodes
    should have alike: by what they send messages, and a digest of their secret keys.
    """

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
        """Return whether it has had a heartbeat lately."""
        return self.seen > now - ALIVE


@value
class Leaving:
    """The way a drain leaves its thread: `due` None takes the wake away, else it is set to then.

    It holds only if the wake is still the generation that the drain saw; else the thread goes round again.
    """

    gen: int
    due: datetime | None = None


@value
class Unit:
    """The base of all units: a `token` that names this one commit, and the instant `at` which it happens."""

    token: str
    at: datetime


@value
class CreateThread(Unit):
    """A thread is born, with the env and tenvs that it was given."""

    thread: Thread
    env: tuple[EnvChange, ...] = ()


@value
class RenameThread(Unit):
    """Set the name of a thread; None removes it. Conflict: `thread`, if it does not exist."""

    thread_id: str
    name: str | None


@value
class PostMessage(Unit):
    """A message arrives at a thread: it joins the open run, or `run` is made for it. The thread is woken.

    Answers with `run_id`: the run that will read it.
    """

    event: InboxEvent
    run: Run
    queued: EventDraft
    files: tuple[FileChange, ...] = ()


@value
class PostCall(PostMessage):
    """A call is made from outside in `run`, which is made, or opened again if it is completed. The thread is woken.

    The guard `run` fails if it has ended otherwise, `busy` while the thread is busy with another one.
    """


@value
class SetEnv(Unit):
    """Env values of a thread or a person are set or taken away from outside a run.

    A thread counts it among what was `posted`, so that a drain in progress reads them again. A person must still be
    there: their values go with them, so `thread_id` is None then, and `entity_id` says who it is.
    """

    thread_id: str | None
    entity_id: str | None = None
    env: tuple[EnvChange, ...]
    effects: tuple[Effect, ...] = ()


@value
class RequestCancel(Unit):
    """An open run is asked to stop. The thread is woken."""

    thread_id: str
    run_id: str


@value
class Reseal(Unit):
    """Secrets are sealed by another key. `rows` are pairs of what is there and what is to be.

    A value that has changed meanwhile is left as it is: it was sealed by the newest key.
    """

    rows: tuple[tuple[EnvRow, EnvRow], ...]


@value
class RetryRun(Unit):
    """A failed run goes on from its last commit. The thread is woken.

    The guard `run` fails if it has not failed or a later run of its thread has been made, `busy` while a run is open
    in the thread, `terminated` if the thread's session has ended.
    """

    thread_id: str
    run_id: str
    queued: EventDraft


@value
class Settle(Unit):
    """An open call gets its end from outside a drain, decided by one compare-and-set on its status.

    A call that waits inline is left to its run, which is woken; a pending one becomes the inbox event `notice`.
    """

    thread_id: str
    call_id: str
    result: JSONObject
    notice: InboxEvent
    event: EventDraft
    files: tuple[FileChange, ...] = ()
    effects: tuple[Effect, ...] = ()

    @property
    def outcome(self) -> Literal["resolved", "expired", "cancelled"]:
        """The status that the call gets."""
        raise TypeError("Settle is made as Submit, Expire or CancelCall.")


@value
class Submit(Settle):
    """The result of an open call that waits for no approval is handed in, before it expires."""

    @property
    def outcome(self) -> Literal["resolved"]:
        return "resolved"


@value
class Expire(Settle):
    """An open call's time is over: not before it expires."""

    @property
    def outcome(self) -> Literal["expired"]:
        return "expired"


@value
class CancelCall(Settle):
    """An open call is taken back."""

    @property
    def outcome(self) -> Literal["cancelled"]:
        return "cancelled"


@value
class LeaseCall(Unit):
    """A worker claims an open call until then, if nobody has it, or its lease is over and it is repeatable (D25)."""

    call_id: str
    worker: str
    until: datetime


@value
class Apply(Unit):
    """Effects from outside a run: what people and services do in spaces, and what timers do."""

    effects: tuple[Effect, ...]


@value
class RetryEvent(Unit):
    """A parked inbox event is to be tried again, as if it were new. The thread is woken."""

    thread_id: str
    event_id: str


@value
class Leave(Unit):
    """A drain found nothing to do, or stops for now."""

    thread_id: str
    leaving: Leaving


@value
class Advance(Unit):
    """A drain moves its thread on. `epoch` and `seq` are those that the drain holds.

    `run` is the run's new row, whole but for what others write into it. `messages` take the places after `seq`,
    `calls` are inserted, and `nested` ones, made by other calls; `changes` are moved, the inbox events `read` are
    processed, others are changed as `inbox` says. The messages at the places `dropped` stay in the records only,
    those `edited` read otherwise from then on.
    `files` and `env` are what handlers wrote. A unit whose `run` is over ends it: then no joined message may be
    unread. `leaving` gives the thread back in the same commit. A unit that begins a hold in a cluster names the `node`
    that must have leased the thread: one that was frozen takes no run back from its successor.
    `was` is the run of the last unit committed within this hold, or None: a store may write only the columns that
    differ from it. A caller that changes its run between two units passes the committed one all the same.
    """

    thread_id: str
    epoch: int
    seq: int
    run: Run
    messages: tuple[Message, ...] = ()
    calls: tuple[Call, ...] = ()
    nested: tuple[Call, ...] = ()
    changes: tuple[CallChange, ...] = ()
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


@value
class Claim(Advance):
    """A drain takes a queued or parked run: the thread's epoch rises.

    With `opens` the run is a new one, made for what waits in the inbox of a thread without an open run. A `run` that is
    over never began: what it was to read could not be read.
    """

    opens: bool = False


@value
class Takeover(Advance):
    """A drain takes a run whose process died: the thread's epoch and the run's lives rise."""


@value
class Answer(Advance):
    """The model has answered; the first of its calls is marked as started."""


@value
class Result(Advance):
    """A call has its result; the next call is marked as started."""


@value
class Park(Advance):
    """The run waits without holding anything."""


@value
class Release(Advance):
    """The process stops cleanly and leaves the run to the next one."""


@value
class Finish(Advance):
    """The run ends otherwise than by an answer or a result: failed, cancelled."""


@value
class SaveEntity(Unit):
    """A human is new, or no longer what they were: then `was` must be what the journal has."""

    entity: Entity
    was: Entity | None = None


@value
class DropEntity(Unit):
    """A human is deleted; their threads stay. The spaces that they leave are told the events."""

    entity_id: str
    told: tuple[EventDraft, ...] = ()


@value
class SaveAgent(Unit):
    """An agent is configured: for the first time, or again, then `was` is the revision that it replaces."""

    agent: ConfiguredAgent
    was: int | None = None
    env: tuple[EnvChange, ...] = ()


@value
class DropAgent(Unit):
    """A configured agent is deleted, with its mind; open runs end with what they began with.

    Calls that hoped for a late result which it would have read are cancelled, as by `CancelCall` but that nothing
    comes to an inbox that nobody reads; so is every one that a unit would make `pending` afterwards. `author` is the
    agent, as the spaces see it in which its calls are shown. The spaces that it leaves are told the events.
    """

    agent_id: str
    entity_id: str
    author: Entity | None = None
    told: tuple[EventDraft, ...] = ()


@value
class CancelOrphans(Unit):
    """The pending calls of threads whose agent was deleted before deletion cancelled them are so now.

    Answers with `count`: how many of the threads are such.
    """

    thread_ids: tuple[str, ...]


@value
class SaveFrontEnd(Unit):
    """A front-end is registered."""

    front_end: FrontEnd


@value
class DropFrontEnd(Unit):
    """A front-end is taken off the list."""

    id: str


@value
class SignOut(Unit):
    """Sessions of the console are signed out `at` this time: the one with the id `key`, or all of a caller.

    The row is kept until the sessions would have expired; expired rows are deleted.
    """

    key: str
    until: datetime


@value
class UseOnce(Unit):
    """A key is used up, or `duplicate` if it was before. The row is kept `until` then, beside those of `SignOut`."""

    key: str
    until: datetime


@value
class Probe(Unit):
    """Nothing happens, but a row is written: the journal shows that it can be."""


@value
class Committed:
    """The unit is in the journal.

    `run_id` is the run that a message joined or the one made for it. For an `Advance`: `posted` is how much was
    ever put into the thread's inbox, `cancel_requested` whether the run was asked to cancel, `left` whether
    `leaving` held. `route` tells where a settled call's result went. `count` is how many rows `Prune` deleted,
    `Reseal` changed, or how many effects on spaces found what they change. `seq` is the place of the last message
    that was said in a space, `runs` are the runs that read what was delivered, by thread.
    """

    run_id: str | None = None
    posted: int = 0
    cancel_requested: bool = False
    left: bool = True
    route: Literal["inline", "inbox"] | None = None
    count: int = 0
    seq: int | None = None
    runs: tuple[tuple[str, str], ...] = ()


@value
class Conflict:
    """A guard failed; nothing was written."""

    guard: Guard
