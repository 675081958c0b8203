"""Ports: the runtime's dependencies on the outside, as small protocols with an in-memory implementation each."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from toolwright.core.json_value import JSON
from toolwright.core.model import Model
from toolwright.core.threads.event import Event, Topic


class Clock(Protocol):
    """The clock. `now` is an aware timestamp in UTC, `monotonic` counts seconds and never goes back."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class NewId(Protocol):
    """Generator of ids: URL-safe, unique, increasing with time; `prefix` names the kind."""

    def __call__(self, prefix: str) -> str: ...


@dataclass(frozen=True, slots=True)
class RetryInIsolation:
    """A drain declines: this thread may only be drained by itself, and not before `after` seconds."""

    after: float


Verdict: TypeAlias = Literal["done", "again", "elsewhere"] | RetryInIsolation


class Drain(Protocol):
    """Processes a thread once, or fires a timer.

    Returns `done`, `again` if it was woken in the meantime, `RetryInIsolation` if it must run alone, or `elsewhere` if
    only another process of a cluster can continue it, since this one does not know its agent.

    `node` is the node of a cluster that has leased it.
    """

    async def __call__(self, name: str, /, *, alone: bool = False, node: str | None = None) -> Verdict: ...


class Files(Protocol):
    """Storage of files' bytes, each under the hex SHA-256 of itself. Raises `StoreError`."""

    async def put(self, content: bytes) -> str:
        """Keep the bytes, once; their digest."""
        ...

    async def get(self, digest: str, part: slice | None = None) -> bytes:
        """Return the bytes, or a range of them. Raises `NotFound` if they do not exist."""
        ...

    async def probe(self) -> None:
        """Try whether bytes can be kept; nothing stays of it."""
        ...

    async def tidy(self, before: datetime) -> int:
        """Remove partial files of processes that were killed before then. Returns the number of bytes removed."""
        ...

    def digests(self) -> AsyncIterator[str]:
        """Return the digests of all bytes that are kept."""
        ...

    async def remove(self, digest: str, before: datetime) -> bool:
        """Remove bytes that were not stored again since then. Returns whether they no longer exist.

        Storing bytes that exist already renews their age: no row needs to reference them yet.
        """
        ...

    async def close(self) -> None: ...


class Cipher(Protocol):
    """Seals secrets. `key` names the key that seals, None before there is one."""

    @property
    def key(self) -> str | None: ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of all keys that can decrypt. The first one encrypts."""
        ...

    def seal(self, text: str) -> tuple[str, str]:
        """Return the sealed text, and the name of the key. Raises `CannotSeal` where there are no keys."""
        ...

    def open(self, sealed: str) -> str:
        """Return the text. Raises `CannotUnseal` if none of the keys has sealed it."""
        ...


class Motor(Protocol):
    """Sees to it that every woken thread is drained: soon, by one at a time, at least once."""

    def wake(self, thread_id: str) -> None:
        """Notify the scheduler after the commit that woke the thread, which need not wait for the next sweep."""
        ...

    @property
    def driving(self) -> bool:
        """Return whether drains run here: false while another process drives the journal."""
        ...

    @property
    def is_only_driver(self) -> bool:
        """Return whether drains run in this process alone."""
        ...

    async def on_duty(self, name: str, seconds: float) -> bool:
        """Return whether this process is to do the work of that name, which one process does for so many seconds."""
        ...

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        """Start to process threads; `nudge(thread_id)` notifies a worker that its thread was woken."""
        ...

    async def stop(self, grace: float) -> None:
        """Wait `grace` seconds for drains in progress, then cancel them. Wake-ups stay in the journal."""
        ...


class Lock(Protocol):
    """The lock for draining: one process at a time on one journal."""

    async def acquire(self) -> bool:
        """Try once, without waiting."""
        ...

    @property
    def held(self) -> bool:
        """Return whether it is ours still: a lock can be lost."""
        ...

    async def release(self) -> None: ...


class Follower(Protocol):
    """A reader's queue: committed events in order, of live ones only the newest of each stream."""

    async def next(self, timeout: float | None = None) -> Sequence[Event]:
        """Return events that have come, or nothing after `timeout` seconds."""
        ...

    async def overrun(self) -> None:
        """Return once too much waits for the reader: it is stuck, or cannot keep up."""
        ...

    def took_all(self) -> bool:
        """Return whether no event was lost since the last call. Lost events can be read from the journal."""
        ...


class Bus(Protocol):
    """Carries events to the followers of this process. It keeps nothing: the journal does."""

    def publish(self, events: Sequence[Event]) -> None:
        """Hand events over, in order; never blocks."""
        ...

    def wanted_in(self, space_id: str) -> bool:
        """Return whether there are subscribers to that space, or to all spaces."""
        ...

    def wanted(self, thread_id: str, run_id: str) -> bool:
        """Return whether the thread or run has subscribers. Without any, live events need not be created."""
        ...

    def subscribe(
        self, topic: Topic, types: Collection[str] | None = None
    ) -> AbstractContextManager[Follower]:
        """Follow a topic: all of it, or only the recorded events of these types."""
        ...

    def announce(self, topic: Topic) -> None:
        """Make the followers of a topic in other processes read the journal; never blocks."""
        ...

    on_shared: list[Callable[[str], None]]
    """Called with a key when a value that another process shares under it has changed."""

    def share(self, key: str, value: JSON) -> None:
        """Share a small value with other processes while this one lives; None removes it."""
        ...

    def shared(self, key: str) -> Sequence[JSON]:
        """Return the values that other processes share under the key, one of each."""
        ...


class NotConnected(ConnectionError):
    """A relay between processes has no connection yet, and does not know why."""


class Models(Protocol):
    """Finds a model by its name, or makes one of a library's own model object.

    Raises `DefinitionError`, `MissingExtra` or `ModelRefused`.
    """

    async def __call__(self, model: object) -> Model: ...


class Embedder(Protocol):
    """Generator of text embeddings: the closer two texts are in meaning, the smaller the angle between their vectors.

    Vectors of embedders with different names are never compared, so a `name` identifies a model and its settings.
    """

    @property
    def name(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of the texts, in their order and of one size, of any length but 0. Raises `ModelError`."""
        ...
