"""The seams: what the runtime needs of the outside, as small protocols with a double in memory each."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from toolwright.core.call import Call, CallStatus
from toolwright.core.event import Event, Topic
from toolwright.core.inbox import InboxEvent
from toolwright.core.message import Message
from toolwright.core.model import Model
from toolwright.core.run import Run, RunStatus, Step
from toolwright.core.thread import Thread
from toolwright.core.units import Committed, Conflict, Unit, Wake
from toolwright.core.value import value


@value
class ThreadView:
    """Everything a drain needs to go on with a thread, read at one moment.

    `run` is the open run, if any, `calls` those of its last step in order, `inbox` what nobody has read.
    `wake` is the thread's wake of the same moment: None where there is nothing to do.
    """

    thread: Thread
    run: Run | None
    messages: tuple[Message, ...]
    calls: tuple[Call, ...]
    inbox: tuple[InboxEvent, ...]
    wake: Wake | None


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

    async def commit(self, unit: Unit) -> Committed | Conflict:
        """Apply the unit whole or not at all, and hand its events to the bus.

        Shielded: a cancellation during the commit is raised at the caller's next wait, after the outcome.
        """
        ...

    async def thread(self, thread_id: str) -> Thread | None: ...

    async def threads(
        self, *, user_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Thread]: ...

    async def view(self, thread_id: str) -> ThreadView | None:
        """What a drain needs, from one consistent read."""
        ...

    async def unread(self, thread_id: str) -> Sequence[InboxEvent]:
        """The thread's inbox events that nobody has read, in order."""
        ...

    async def inbox(self, thread_id: str, limit: int = 100, offset: int = 0) -> Sequence[InboxEvent]: ...

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
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Call]:
        """Calls, the oldest first."""
        ...

    async def events(self, topic: Topic, after: int = 0, limit: int = 500) -> Sequence[Event]:
        """Committed events with a number above `after`, in order."""
        ...

    async def bounds(self, topic: Topic) -> tuple[int, int]:
        """The numbers of the oldest and the newest event kept, (0, 0) if there is none."""
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
    """Drains a thread once: `done`, or `again` when it was woken meanwhile, or only `Alone`."""

    async def __call__(self, thread_id: str, *, alone: bool = False) -> Verdict: ...


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

    def took_all(self) -> bool:
        """Whether nothing was lost since the last time this was asked; else the journal has it."""
        ...


class Bus(Protocol):
    """Carries events to the followers of this process. It keeps nothing: the journal does."""

    def publish(self, events: Sequence[Event]) -> None:
        """Hand events over, in order; never blocks."""
        ...

    def wanted(self, thread_id: str, run_id: str) -> bool:
        """Whether anybody follows that thread or run: live events need not be made for nobody."""
        ...

    def subscribe(self, topic: Topic) -> AbstractContextManager[Follower]: ...


class Models(Protocol):
    """Finds a model by its name, or makes one of a library's own model object.

    Raises `DefinitionError`, `MissingExtra` or `ModelRefused`.
    """

    async def __call__(self, model: object) -> Model: ...
