"""Store port of the journal: commits and reads, by noun; and its outages in the log."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from typing import Literal, TypeAlias

from toolwright.core.env.env import EnvRow
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError
from toolwright.core.files import File
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.reads import (
    BY_TIME,
    AgentReads,
    ChildReads,
    Depths,
    McpReads,
    OfferReads,
    RecordReads,
    RetentionReads,
    RowReads,
    SessionReads,
    SpaceReads,
    turned,
)
from toolwright.core.journal.rows import Above, Below, Not, OneOf, UpTo
from toolwright.core.journal.units import Committed, Conflict, Node, Unit
from toolwright.core.limits import ALL_ROWS, MAX_DELAY
from toolwright.core.ports import Clock
from toolwright.core.spaces import Entity
from toolwright.core.text import quantity
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageVersion
from toolwright.core.threads.run import Run, RunStatus, Step
from toolwright.core.threads.thread import Thread, Wake
from toolwright.core.value import Value

Order: TypeAlias = Literal["oldest_first", "newest_first"]
NEWEST_FIRST = ("-created_at", "-id")
OWNERS = 100  # threads whose owners are read at once
SELDOM = 300.0  # seconds between two log lines about a continuing outage
FLAPPING = 60.0  # seconds after a log line within which no other outage is logged, unless it lasts longer


class ThreadView(Value):
    """A consistent snapshot of a thread, with everything that a worker needs to continue it.

    `run` is the open run, or None. `calls` are the calls of its last step in order. `inbox` are the unread events,
    `reading` the events that the open run has read and releases if it fails. `wake` is the thread's wake-up, or None if
    it has nothing to do. `env` are the values of the thread, of its ancestors and of its user. `compactions` are the
    compactions in force of the top-level conversation; messages that they omit are not loaded, except messages of the
    open run.
    """

    thread: Thread
    run: Run | None
    messages: tuple[Message, ...]
    calls: tuple[Call, ...]
    inbox: tuple[InboxEvent, ...]
    wake: Wake | None
    env: tuple[EnvRow, ...] = ()
    reading: tuple[InboxEvent, ...] = ()
    compactions: tuple[Compaction, ...] = ()


class CallScope(Value):
    """A consistent snapshot of a call and of what its result is checked and redacted with.

    `thread` is None if the thread was deleted, and `run` if its row was. `env` are the values of the thread, of its
    ancestors and of its user.
    """

    call: Call
    thread: Thread | None
    run: Run | None
    env: tuple[EnvRow, ...] = ()


class KnownMessages(Value):
    """The messages of a thread that a worker keeps in memory after it has released the thread.

    They are current as long as the thread has the same `epoch`, `seq` and `hides`. Only the holder of the thread's
    epoch writes messages, so no other process can have changed them but by hiding them.
    """

    epoch: int
    seq: int
    messages: tuple[Message, ...]
    hides: int = 0

    def matches(self, thread: Thread) -> bool:
        """Return whether these are the thread's current messages."""
        return (self.epoch, self.seq, self.hides) == (thread.epoch, thread.seq, thread.hides)


class CallVisibility(Value):
    """The calls that an entity can see: in threads of `users`, or shown in a space that `entity_id` can see."""

    users: Sequence[str]
    entity_id: str


class Store(ABC):
    """The journal. Raises `StoreError` when it cannot be read or written; nothing was acknowledged in that case.

    A store adds commits, and reads that are more than conditions of rows.
    """

    rows: RowReads
    spaces: SpaceReads
    agents: AgentReads
    offers: OfferReads  # calls that external workers can claim
    children: ChildReads  # thread trees, and nested calls
    sessions: SessionReads
    records: RecordReads
    mcp: McpReads
    retention: RetentionReads

    def __init__(self, rows: RowReads) -> None:
        self.rows = rows

    @abstractmethod
    async def commit(self, unit: Unit) -> Committed | Conflict:
        """Apply a unit of work completely or not at all, and publish its events on the bus.

        Shielded: a cancellation during the commit is raised at the caller's next await, after the outcome is known.
        """

    async def thread(self, thread_id: str) -> Thread | None:
        """Return the thread with that id."""
        return await self.rows.one(Thread, thread_id)

    async def threads(
        self,
        *,
        users: Sequence[str] | None = None,
        agent: str | None = None,
        order: Order = "oldest_first",
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Thread]:
        """Return threads.

        With `users` only threads of these users (none if it is empty), with `agent` only threads of the agent with that
        id.
        """
        if users is not None and not users:
            return []
        where: dict[str, object] = {} if agent is None else {"agent": agent}
        if users is not None:
            where["user_id"] = OneOf(values=users)
        by = BY_TIME if order == "oldest_first" else NEWEST_FIRST
        return await self.rows.find(Thread, where, by, limit=limit, offset=offset)

    @abstractmethod
    async def view(self, thread_id: str, known: KnownMessages | None = None) -> ThreadView | None:
        """Return a thread's state for a worker, from one consistent read. `known` messages are not loaded again."""

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        """Return the thread's unread inbox events, in order."""
        where = {"thread_id": thread_id, "status": "pending"}
        return await self.rows.find(InboxEvent, where, ("n",))

    async def inbox(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[InboxEvent]:
        """Return the inbox events of the thread, in order."""
        where = {"thread_id": thread_id}
        return await self.rows.find(InboxEvent, where, ("n",), limit=limit, offset=offset)

    async def inbox_event(self, thread_id: str, event_id: str) -> InboxEvent | None:
        """Return the inbox event of the thread with that id."""
        return await self.rows.one(InboxEvent, thread_id, event_id)

    async def messages(
        self, thread_id: str, limit: int = 100, offset: int = 0, *, run_id: str | None = None
    ) -> Sequence[Message]:
        """Return a page of the thread's messages, or of one run's, in order."""
        where: dict[str, object] = {"thread_id": thread_id, "within": None}
        if run_id is not None:
            where["run_id"] = run_id
        return await self.rows.find(Message, where, ("seq",), limit=limit, offset=offset)

    async def messages_before(self, thread_id: str, seq: int | None, limit: int) -> Sequence[Message]:
        """Return the last messages before a position in the thread, or the last of all, in order."""
        where: dict[str, object] = {"thread_id": thread_id, "within": None}
        if seq is not None:
            where["seq"] = Below(value=seq)
        return turned(await self.rows.find(Message, where, ("-seq",), limit=limit))

    async def message(self, thread_id: str, message_id: str) -> Message | None:
        """Return the message of the top-level conversation with that id."""
        return await self.rows.first(Message, {"thread_id": thread_id, "within": None, "id": message_id})

    async def pinned_messages(self, thread_id: str) -> Sequence[Message]:
        """Return the pinned messages of the thread, in order, excluding skipped runs."""
        where = {"thread_id": thread_id, "within": None, "pinned": True, "kept": True}
        return await self.rows.find(Message, where, ("seq",))

    @abstractmethod
    async def compactions(
        self, thread_id: str, within: str | None = None, limit: int = ALL_ROWS, offset: int = 0
    ) -> Sequence[Compaction]:
        """Return the compactions of the thread, oldest first; the n-th has the number n.

        With `within` (a call's id, or an empty text for the top-level conversation) only the compactions in force
        there.
        """

    async def message_versions(self, thread_id: str) -> Sequence[MessageVersion]:
        """Return the earlier versions of the thread's edited messages, earliest first."""
        return await self.rows.find(MessageVersion, {"thread_id": thread_id}, ("seq", "until"))

    async def sent_texts(self, thread_id: str, digests: Sequence[str]) -> Sequence[SentText]:
        """Return the texts with these digests that were sent to the thread's models."""
        if not digests:
            return []
        where = {"thread_id": OneOf(values=("", thread_id)), "digest": OneOf(values=digests)}
        return await self.rows.find(SentText, where)

    async def run(self, run_id: str) -> Run | None:
        """Return the run with that id."""
        return await self.rows.one(Run, run_id)

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        """Return runs, newest first."""
        conditions = {"status": status, "agent": agent, "thread_id": thread_id}
        where = {name: each for name, each in conditions.items() if each is not None}
        return await self.rows.find(Run, where, NEWEST_FIRST, limit=limit, offset=offset)

    async def steps(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Step]:
        """Return the steps of the run, in order."""
        return await self.rows.find(Step, {"run_id": run_id}, ("number",), limit=limit)

    async def verdicts(self, run_id: str) -> Sequence[HookVerdict]:
        """Return the verdicts of hooks in the run, oldest first."""
        return await self.rows.find(HookVerdict, {"run_id": run_id}, HookVerdict.STORED.order)

    async def run_messages(self, run_id: str, limit: int = ALL_ROWS) -> Sequence[Message]:
        """Return all messages of a run, including skipped ones."""
        return await self.rows.find(Message, {"run_id": run_id}, ("seq",), limit=limit)

    async def call(self, call_id: str) -> Call | None:
        """Return the call with that id."""
        return await self.rows.one(Call, call_id)

    async def started_calls(self, run_id: str, name: str, limit: int) -> Sequence[Call]:
        """Return calls of that tool which the run has started."""
        where = {"run_id": run_id, "name": name, "started_at": Not(value=None)}
        return await self.rows.find(Call, where, limit=limit)

    @abstractmethod
    async def call_scope(self, call_id: str) -> CallScope | None:
        """Return the call, its thread, its run and the env of its thread, from one consistent read."""

    @abstractmethod
    async def calls(
        self,
        *,
        status: Sequence[CallStatus] | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: CallVisibility | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Call]:
        """Return calls, oldest first; with `sees` only those that the entity can see."""

    @abstractmethod
    async def env(self, thread_id: str) -> Sequence[EnvRow]:
        """Return env and tenvs of the thread, and the env of its user."""

    async def env_of(self, owner: str) -> Sequence[EnvRow]:
        """Return the env of one thread or person, by name."""
        return await self.rows.find(EnvRow, {"owner": owner}, ("kind", "name"))

    @abstractmethod
    async def now(self) -> datetime:
        """Return the time of the database's clock, or of this machine's clock for a journal in this process."""

    async def nodes(self) -> Sequence[Node]:
        """Return the processes of the cluster on this journal, including some dead ones. Empty without a cluster."""
        return await self.rows.readable(Node, {}, ("id",))

    async def sealed_otherwise(self, key: str, limit: int) -> Sequence[EnvRow]:
        """Return values that were encrypted with a key other than this one."""
        return await self.rows.readable(
            EnvRow, ({"key": Below(value=key)}, {"key": Above(value=key)}), limit=limit
        )

    async def files(self, thread_id: str) -> Sequence[File]:
        """Return the thread's files, by path."""
        return await self.rows.find(File, {"thread_id": thread_id}, ("path",))

    async def file(self, thread_id: str, folded: str) -> File | None:
        """Return the file at that folded path."""
        return await self.rows.one(File, thread_id, folded)

    async def files_at(self, thread_id: str, folded: Sequence[str]) -> Set[str]:
        """Return which of these folded paths exist in the thread."""
        where = {"thread_id": thread_id, "folded": OneOf(values=folded)}
        return {row.folded for row in await self.rows.distinct(File, ("folded",), where)}

    @abstractmethod
    async def events(
        self, topic: Topic, after: int = 0, limit: int = 500, offset: int = 0
    ) -> Sequence[Event]:
        """Return committed events with a number above `after`, in order, skipping the first `offset`."""

    @abstractmethod
    async def bounds(self, topic: Topic) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest stored event, (0, 0) if there is none."""

    async def entity(self, entity_id: str) -> Entity | None:
        """Return the entity with that id."""
        return await self.rows.one(Entity, entity_id)

    async def entity_by_external_id(self, external_id: str) -> Entity | None:
        """Return the entity with that external id."""
        return await self.rows.first(Entity, {"external_id": external_id})

    async def entities(self, *, limit: int = 50, offset: int = 0) -> Sequence[Entity]:
        """Return the people, oldest first."""
        return await self.rows.find(Entity, {}, BY_TIME, limit=limit, offset=offset)

    async def wake(self, thread_id: str) -> Wake | None:
        """Return the wake-up of the thread."""
        return await self.rows.one(Wake, thread_id)

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        """Return due wake-ups, longest waiting first, then by name."""
        where = {"due": UpTo(value=now), "node": None}
        return await self.rows.readable(Wake, where, ("due", "thread_id"), limit=limit)

    async def owners(self, thread_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the owner of each thread that exists: its user id, or its agent's id if it has no user."""
        owners: dict[str, str] = {}
        for start in range(0, len(thread_ids), OWNERS):
            ids = thread_ids[start : start + OWNERS]
            where = {"id": OneOf(values=[*ids, *[""] * (OWNERS - len(ids))])}  # one statement for any number
            rows = await self.rows.distinct(Thread, ("id", "user_id", "agent"), where)
            owners |= {row.id: row.user_id or row.agent for row in rows}
        return owners

    @abstractmethod
    async def next_due(self, after: datetime) -> datetime | None:
        """Return the time of the first wake-up after that time, or None."""

    @abstractmethod
    async def depths(self) -> Depths:
        """Return the numbers of pending calls and unread events, counted by indexes."""

    @abstractmethod
    async def shrink(self) -> bool:
        """Return some of the space freed by deletions to the operating system, and whether there is more.

        Other writers can commit between two steps. Has no effect on a database that manages its space itself.
        """

    @abstractmethod
    async def close(self) -> None: ...


UNSEEN = 2 * MAX_DELAY  # seconds without a failure after which an outage counts as ended

log = logger("toolwright.journal")


class Outage:
    """Record of an outage of the journal. Callers that retry report each failure, and the first success after it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self._is_logged = False
        self._last_failure = self._last_line = -math.inf

    @property
    def lasts(self) -> bool:
        """Return whether the journal has failed and has not answered since."""
        return self._since is not None

    def failed(self, error: StoreError) -> None:
        """Record that the journal could not be read or written."""
        now = self._clock.monotonic()
        if self._since is None or now - self._last_failure > UNSEEN:
            self._since, self._is_logged = now, False
        self._last_failure = now
        if not self._is_logged and now - self._last_line >= FLAPPING:
            self._is_logged, self._last_line = True, now
            log.warning("The journal is unavailable. Work that needs it waits: %s", error)
        elif self._is_logged and now - self._last_line >= SELDOM:
            self._last_line = now
            log.warning("The journal did not answer for %s: %s", _seconds(now - self._since), error)

    def over(self) -> None:
        """Record that the journal has answered after a failure."""
        if self._since is None:
            return
        now = self._clock.monotonic()
        if self._is_logged:
            self._last_line = now
            log.warning("The journal is available again after %s.", _seconds(now - self._since))
        self._since = None


def _seconds(duration: float) -> str:
    return quantity(round(duration), "second")
