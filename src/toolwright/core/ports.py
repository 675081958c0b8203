"""Ports: small protocols of the runtime's external dependencies, each with an in-memory implementation."""

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
    """The thread's run is suspected of ending its process: it must be processed apart from half of the other suspects.

    It starts no sooner than after `after` seconds. Suspects with more `lives`, the processes that have ended while they
    were executed, are the first.
    """

    after: float
    lives: int = 0


Verdict: TypeAlias = Literal["done", "again", "elsewhere"] | RetryInIsolation


class Drain(Protocol):
    """Processes a thread once, or fires a timer.

    Returns `done`, `again` if the thread was woken in the meantime, `RetryInIsolation` if its run is a suspect,
    or `elsewhere` if only another process of a cluster can continue it, because this process does not know its agent.

    `alone` executes a suspect, together with as many others that `suspects` is their number. `node` is the node of a
    cluster that has leased the thread.
    """

    async def __call__(
        self, name: str, /, *, alone: bool = False, suspects: int = 1, node: str | None = None
    ) -> Verdict: ...


class FileStore(Protocol):
    """Storage of file contents, each under its SHA-256 in hex. Raises `StoreError`."""

    async def put(self, content: bytes) -> str:
        """Store the bytes and return their digest. No effect if they exist already."""
        ...

    async def get(self, digest: str, part: slice | None = None) -> bytes:
        """Return the bytes, or a range of them. Raises `NotFound` if the digest is unknown."""
        ...

    async def probe(self) -> None:
        """Check that files can be stored, without leaving one."""
        ...

    async def tidy(self, before: datetime) -> int:
        """Remove partial files left before that time by killed processes. Returns the number of bytes removed."""
        ...

    def digests(self) -> AsyncIterator[str]:
        """Return the digests of all stored contents."""
        ...

    async def remove(self, digest: str, before: datetime) -> bool:
        """Remove a content unless it was stored again since that time. Returns whether it no longer exists.

        Storing bytes that already exist renews their age, because no row references them yet.
        """
        ...

    async def close(self) -> None: ...


class Cipher(Protocol):
    """Encryption of secrets. `key` names the encrypting key, or is None if there is no key yet."""

    @property
    def key(self) -> str | None: ...

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of all keys that can decrypt. The first one encrypts."""
        ...

    def derived(self, purpose: str) -> Sequence[bytes]:
        """Return a key for another purpose from each of the keys, in their order."""
        ...

    def seal(self, text: str) -> tuple[str, str]:
        """Return the encrypted text and the name of the key. Raises `CannotSeal` without a key."""
        ...

    def open(self, sealed: str) -> str:
        """Return the decrypted text. Raises `CannotUnseal` if it was encrypted with none of the keys."""
        ...


class Motor(Protocol):
    """Scheduler: processes every woken thread soon, at least once, and by one worker at a time."""

    def wake(self, thread_id: str) -> None:
        """Notify the scheduler after the commit that woke the thread, so that it need not wait for the next sweep."""
        ...

    @property
    def driving(self) -> bool:
        """Return whether this process executes runs. False while another process executes the journal's runs."""
        ...

    @property
    def is_only_driver(self) -> bool:
        """Return whether no other process executes runs of the journal."""
        ...

    async def on_duty(self, name: str, seconds: float) -> bool:
        """Return whether this process performs the periodic work of that name for the next `seconds` seconds."""
        ...

    async def start(self, drain: Drain, nudge: Callable[[str], None]) -> None:
        """Start to process threads; `nudge(thread_id)` notifies a worker that its thread was woken."""
        ...

    async def stop(self, grace: float) -> None:
        """Wait up to `grace` seconds for runs in progress, then cancel them. Wake-ups stay in the journal."""
        ...


class JournalLock(Protocol):
    """Lock of a journal for the one process that executes its runs."""

    async def acquire(self) -> bool:
        """Try once to acquire the lock, without waiting."""
        ...

    @property
    def held(self) -> bool:
        """Return whether this process still holds the lock, which can be lost."""
        ...

    async def release(self) -> None: ...


class Follower(Protocol):
    """Queue of one subscriber: all committed events in order, but only the newest live event of each stream."""

    async def next(self, timeout: float | None = None) -> Sequence[Event]:
        """Return the waiting events, or an empty list after `timeout` seconds."""
        ...

    async def overrun(self) -> None:
        """Return whether too many events wait, because the subscriber is stuck or too slow."""
        ...

    def took_all(self) -> bool:
        """Return whether no event was lost since the last call. Lost events can be read from the journal."""
        ...


class Bus(Protocol):
    """Publishes events to the subscribers of this process. It stores nothing."""

    def publish(self, events: Sequence[Event]) -> None:
        """Publish events, in order, without blocking."""
        ...

    def wanted_in(self, space_id: str) -> bool:
        """Return whether that space, or all spaces together, have subscribers."""
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
        """Make the subscribers of a topic in other processes read the journal, without blocking."""
        ...

    on_shared: list[Callable[[str], None]]
    """Functions called with a key when a value that another process shares under it has changed."""

    def share(self, key: str, value: JSON) -> None:
        """Share a small value with other processes while this process lives; None removes it."""
        ...

    def shared(self, key: str) -> Sequence[JSON]:
        """Return the distinct values that other processes share under the key."""
        ...


class NotConnected(ConnectionError):
    """A relay between processes is not connected yet, for an unknown reason."""


class Models(Protocol):
    """Resolves a model by name, or wraps another library's model object.

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
        """Return the vectors of the texts, in order and all of one size, of any length but 0. Raises `ModelError`."""
        ...
