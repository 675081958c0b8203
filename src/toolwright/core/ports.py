"""The seams: what the runtime needs of the outside, as small protocols with a double in memory each."""

from collections.abc import Callable, Collection, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from toolwright.core.call import Call, CallStatus
from toolwright.core.entity import Entity
from toolwright.core.env import EnvRow
from toolwright.core.event import Event, Topic
from toolwright.core.file import File
from toolwright.core.inbox import InboxEvent
from toolwright.core.message import Message
from toolwright.core.model import Model
from toolwright.core.run import Run, RunStatus, Step
from toolwright.core.store_agents import AgentReads
from toolwright.core.store_children import ChildReads
from toolwright.core.store_front_ends import FrontEndReads
from toolwright.core.store_offers import OfferReads
from toolwright.core.store_spaces import SpaceReads
from toolwright.core.thread import Thread
from toolwright.core.units import Committed, Conflict, Unit, Wake
from toolwright.core.value import value


@value
class ThreadView:
    """Everything a drain needs to go on with a thread, read at one moment.

    `run` is the open run, if any, `calls` those of its last step in order, `inbox` what nobody has read, `reading`
    what the open run has read and gives back if it fails.
    `wake` is the thread's wake of the same moment: None where there is nothing to do. `env` are the values of
    the thread, of those above it and of its user.
    """

    thread: Thread
    run: Run | None
    messages: tuple[Message, ...]
    calls: tuple[Call, ...]
    inbox: tuple[InboxEvent, ...]
    wake: Wake | None
    env: tuple[EnvRow, ...] = ()
    reading: tuple[InboxEvent, ...] = ()


@value
class Sight:
    """Whose calls are asked for: those of the threads of `users`, and those shown in a space that `entity_id` sees."""

    users: Sequence[str]
    entity_id: str


class Clock(Protocol):
    """The time. `now` is an aware instant in UTC, `monotonic` counts seconds and never goes back."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class NewId(Protocol):
    """Makes ids: URL-safe, unique, rising with time; `prefix` says of what."""

    def __call__(self, prefix: str) -> str: ...


class Store(Protocol):
    """The journal. Raises `StoreError` when it cannot be read or written; then nothing was acknowledged."""

    @property
    def spaces(self) -> SpaceReads:
        """The same journal, as far as it is about spaces."""
        ...

    @property
    def agents(self) -> AgentReads:
        """The same journal, as far as it is about configured agents and what agents keep in mind."""
        ...

    @property
    def offers(self) -> OfferReads:
        """The same journal, as far as it is about calls on offer to outside workers."""
        ...

    @property
    def children(self) -> ChildReads:
        """The same journal, as far as it is about families of threads, and what lies below a call."""
        ...

    @property
    def front_ends(self) -> FrontEndReads:
        """The same journal, as far as it is about registered front-ends."""
        ...

    async def commit(self, unit: Unit) -> Committed | Conflict:
        """Apply the unit whole or not at all, and hand its events to the bus.

        Shielded: a cancellation during the commit is raised at the caller's next wait, after the outcome.
        """
        ...

    async def thread(self, thread_id: str) -> Thread | None: ...

    async def threads(
        self, *, users: Sequence[str] | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Thread]:
        """Threads, the oldest first; with `users` only theirs, of nobody if it is empty."""
        ...

    async def view(self, thread_id: str) -> ThreadView | None:
        """What a drain needs, from one consistent read."""
        ...

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        """The thread's inbox events that nobody has read, in order."""
        ...

    async def inbox(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[InboxEvent]: ...

    async def inbox_event(self, thread_id: str, event_id: str) -> InboxEvent | None: ...

    async def messages(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[Message]: ...

    async def run(self, run_id: str) -> Run | None: ...

    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        """Runs, the newest first."""
        ...

    async def steps(self, run_id: str) -> Sequence[Step]: ...

    async def run_messages(self, run_id: str) -> Sequence[Message]:
        """All messages of a run, those of a skipped one included."""
        ...

    async def call(self, call_id: str) -> Call | None: ...

    async def calls(
        self,
        *,
        status: Sequence[CallStatus] | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        sees: Sight | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Call]:
        """Calls, the oldest first; those that `sees` may see if it is given."""
        ...

    async def env(self, thread_id: str) -> Sequence[EnvRow]:
        """Env and tenvs of the thread, and the env of its user."""
        ...

    async def env_of(self, owner: str) -> Sequence[EnvRow]:
        """Env of one thread or person, by name."""
        ...

    async def sealed_otherwise(self, key: str, limit: int) -> Sequence[EnvRow]:
        """Values that another key than this one has sealed."""
        ...

    async def files(self, thread_id: str) -> Sequence[File]:
        """The thread's files, by path."""
        ...

    async def file(self, thread_id: str, folded: str) -> File | None:
        """The file at that folded path."""
        ...

    async def files_at(self, thread_id: str, folded: Sequence[str]) -> Set[str]:
        """Those of the folded paths at which the thread has a file."""
        ...

    async def events(
        self, topic: Topic, after: int = 0, limit: int = 500, offset: int = 0
    ) -> Sequence[Event]:
        """Committed events with a number above `after`, in order, without the first `offset` of them."""
        ...

    async def bounds(self, topic: Topic) -> tuple[int, int]:
        """The numbers of the oldest and the newest event kept, (0, 0) if there is none."""
        ...

    async def entity(self, entity_id: str) -> Entity | None: ...

    async def entity_named(self, external_id: str) -> Entity | None:
        """The entity with that external id."""
        ...

    async def entities(self, *, limit: int = 50, offset: int = 0) -> Sequence[Entity]:
        """The humans, the oldest first."""
        ...

    async def wake(self, thread_id: str) -> Wake | None: ...

    async def due(self, now: datetime, limit: int) -> Sequence[Wake]:
        """Wakes whose time has come, the longest waiting first."""
        ...

    async def next_due(self, after: datetime) -> datetime | None:
        """When the next wake after that instant is due."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Alone:
    """A drain declines: this thread may only be drained by itself, and not before `after` seconds."""

    after: float


Verdict: TypeAlias = Literal["done", "again"] | Alone


class Drain(Protocol):
    """Drains a thread once, or fires a timer: `done`, or `again` when it was woken meanwhile, or only `Alone`."""

    async def __call__(self, name: str, /, *, alone: bool = False) -> Verdict: ...


class Files(Protocol):
    """Where the bytes of files lie, each under the hex SHA-256 of itself. Raises `StoreError`."""

    async def put(self, content: bytes) -> str:
        """Keep the bytes, once; their digest."""
        ...

    async def get(self, digest: str) -> bytes:
        """The bytes; `NotFound` if they are not there."""
        ...

    async def probe(self) -> None:
        """Try whether bytes can be kept; nothing stays of it."""
        ...

    async def tidy(self, before: datetime) -> int:
        """Take away what processes left half-written that were killed before then; how much that was."""
        ...

    async def close(self) -> None: ...


class Cipher(Protocol):
    """Seals secrets. `key` names the key that seals, None before there is one."""

    @property
    def key(self) -> str | None: ...

    def seal(self, text: str) -> tuple[str, str]:
        """The sealed text, and the name of the key; `CannotSeal` where there are no keys."""
        ...

    def open(self, sealed: str) -> str:
        """The text; `CannotUnseal` if none of the keys has sealed it."""
        ...


class Motor(Protocol):
    """Sees to it that every woken thread is drained: soon, by one at a time, at least once."""

    def wake(self, thread_id: str) -> None:
        """A nudge after the commit that woke the thread: spares the wait for the next sweep."""
        ...

    @property
    def driving(self) -> bool:
        """Whether drains run here: false while another process drives the journal."""
        ...

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        """Begin to drain; `nudge(thread_id)` tells a drain at work that its thread was woken."""
        ...

    async def stop(self, grace: float) -> None:
        """Let drains at work end for `grace` seconds, then cancel them. Wakes stay in the journal."""
        ...


class Lock(Protocol):
    """Who may drain: one process at a time on one journal."""

    async def acquire(self) -> bool:
        """Try once, without waiting."""
        ...

    @property
    def held(self) -> bool:
        """Whether it is ours still: a lock can be lost."""
        ...

    async def release(self) -> None: ...


class Follower(Protocol):
    """A reader's queue: committed events in order, of live ones only the newest of each stream."""

    async def next(self, timeout: float | None = None) -> Sequence[Event]:
        """What has come, or nothing after `timeout` seconds."""
        ...

    async def overrun(self) -> None:
        """Return once too much waits for the reader: it is stuck, or cannot keep up."""
        ...

    def took_all(self) -> bool:
        """Whether nothing was lost since the last time this was asked; else the journal has it."""
        ...


class Bus(Protocol):
    """Carries events to the followers of this process. It keeps nothing: the journal does."""

    def publish(self, events: Sequence[Event]) -> None:
        """Hand events over, in order; never blocks."""
        ...

    def wanted_in(self, space_id: str) -> bool:
        """Whether anybody follows that space, or all of them."""
        ...

    def wanted(self, thread_id: str, run_id: str) -> bool:
        """Whether anybody follows all of that thread or run: live events need not be made for nobody."""
        ...

    def subscribe(
        self, topic: Topic, types: Collection[str] | None = None
    ) -> AbstractContextManager[Follower]:
        """Follow a topic: all of it, or only the recorded events of these types."""
        ...


class Models(Protocol):
    """Finds a model by its name, or makes one of a library's own model object.

    Raises `DefinitionError`, `MissingExtra` or `ModelRefused`.
    """

    async def __call__(self, model: object) -> Model: ...
