"""Commits of a run: the changes of a unit, the writer that retries it until it is written, and the listeners."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias, TypeVar, cast

from toolwright.core import backoff
from toolwright.core.env.env import EnvChange
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.files.file import FileChange
from toolwright.core.journal.effects import Post
from toolwright.core.journal.outage import Outage
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance, Committed, Conflict, Guard, Leaving
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.core.threads.call import Call, CallChange, is_over
from toolwright.core.threads.event import Event, EventDraft
from toolwright.core.threads.inbox import InboxChange
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus, Step, StopReason
from toolwright.core.value import changed, value
from toolwright.runtime.spaces.membership import Intended
from toolwright.wire.call import shown_call_id
from toolwright.wire.event import live_event

log = logger("toolwright.runtime")
T = TypeVar("T")

DRAIN_SLICE = 0.02  # seconds of one drain, while others wait


Answered: TypeAlias = Literal["done"] | Guard
"""A unit is in the journal, or a guard has failed that its drain can answer."""

Reaction: TypeAlias = Literal[
    "lost",  # another process has the thread: this drain writes no more
    "rebuilt",  # the unit is built again from the current state
    "space",  # the thread's space is read again, and the unit is rebuilt
    "inbox",  # the inbox is read again
    "calls",  # the calls are read again
    "compactions",  # the summaries are read again
    "cancelled",  # the run's work is cancelled
    "refused",  # the call whose effect it is fails
]
REACTIONS: Mapping[Guard, Reaction] = {
    "thread": "lost",
    "lease": "lost",
    "fence": "lost",
    "run": "lost",
    "file": "rebuilt",
    "message": "rebuilt",
    "mind": "rebuilt",
    "busy": "rebuilt",
    "child_limit": "rebuilt",
    "terminated": "rebuilt",
    "space": "space",
    "unread": "inbox",
    "inbox": "inbox",
    "call": "calls",
    "compaction": "compactions",
    "cancel": "cancelled",
    "duplicate": "refused",
    "entity": "refused",
    "member": "refused",
    "agent": "refused",
    "front_end": "refused",
    "plan": "refused",
    "block": "refused",
    "passage": "refused",
    "mcp_tool": "refused",
    "request": "refused",
}
"""The reaction of a run to each guard that one of its units can fail."""

REBUILT: frozenset[Answered] = frozenset(
    [guard for guard, reaction in REACTIONS.items() if reaction in ("rebuilt", "space")]
)
"""The guards after which a unit is built again: files, spaces or other threads have changed since it was built.

After the others the context has read what has changed, and the run continues from there.
"""


class ThreadLost(Exception):
    """Raised when another process owns the thread: this one writes nothing more."""


class EffectRefused(ThreadLost):
    """Raised when a row that a unit's effect depends on was changed or deleted since it was read.

    A call fails with this message and code. Any other unit is dropped, and the thread is claimed again.
    """

    code = "conflict"

    def __init__(self, guard: Guard) -> None:
        what = "The same" if guard == "duplicate" else f"The {guard.replace('_', ' ')}"
        end = "exists already" if guard == "duplicate" else "has changed, or is gone, since this call read it"
        self.message = f"{what} {end}: nothing of this call was written. Read it once more, then try again."
        super().__init__(self.message)


class UnitWriter:
    """Writes the units of one hold on one thread, one after another; `nonce` is unique to it."""

    def __init__(self, store: Store, clock: Clock, thread_id: str, nonce: str, outage: Outage) -> None:
        self._store = store
        self._clock = clock
        self._thread_id = thread_id
        self._outage = outage
        self.tokens: Iterator[str] = map(f"{nonce}.{{}}".format, count(1))
        """Names for its units, cheaper than new ids and as unique."""
        self._pause_at = clock.monotonic() + DRAIN_SLICE
        self._making: Callable[[], Awaitable[Advance]] | None = None
        self._unwritten: Advance | None = None

    async def made(self, make: Callable[[], Awaitable[Advance]]) -> Advance:
        """Return a unit for which the journal must be read first; it is to be written next."""
        self._making = make
        return await self.retry_until_available(make)

    async def write(self, unit: Advance) -> Committed | Conflict:
        """Commit the unit. Raises `Unwritable` if the journal cannot hold it.

        The journal in memory never waits, so other tasks get their turn here every `DRAIN_SLICE`.
        """
        if self._clock.monotonic() > self._pause_at:
            await asyncio.sleep(0)
            self._pause_at = self._clock.monotonic() + DRAIN_SLICE
        self._unwritten = unit
        try:
            try:
                answer = await self._store.commit(unit)
            except StoreError as error:
                answer = await self._write_again(unit, error)
        except Unwritable:
            self._making = self._unwritten = None
            raise
        self._making = self._unwritten = None
        return answer

    async def _write_again(self, unit: Advance, error: StoreError) -> Committed | Conflict:
        """Commit the unit, for which the journal was unavailable."""
        delay = await self._back_off(error, None)
        return await self.retry_until_available(lambda: self._store.commit(unit), delay)

    async def write_once(self, unit: Advance) -> Committed | Conflict:
        """Commit the unit once; raises `StoreError`."""
        return await self._store.commit(unit)

    async def left(self) -> Advance | None:
        """Return the unit whose writing was broken off, if one was; raises `StoreError`."""
        unit, making = self._unwritten, self._making
        self._making = self._unwritten = None
        return await making() if unit is None and making is not None else unit

    async def retry_until_available(self, work: Callable[[], Awaitable[T]], delay: float | None = None) -> T:
        """Retry the work while the journal is unavailable; `delay` is the previous pause."""
        while True:
            try:
                answer = await work()
            except StoreError as error:
                delay = await self._back_off(error, delay)
            else:
                if delay is not None:
                    self._outage.over()
                return answer

    async def _back_off(self, error: StoreError, delay: float | None) -> float:
        """Wait longer than the last time; how many seconds that was."""
        self._outage.failed(error)
        log.debug("Thread %s waits for the journal: %s", self._thread_id, error)
        delay = backoff.longer(delay)
        await self._clock.sleep(delay)
        return delay


Opened: TypeAlias = Callable[[Call, str], None]
"""Takes a call that somebody outside may answer from now on, and the id of the agent that made it."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Notified of commits: threads are `woken`, calls `opened` to workers, live events published, outages counted."""

    woken: Callable[[str], None]
    opened: Opened
    publish: Callable[[Sequence[Event]], None]
    outage: Outage

    def notify(
        self, unit: Advance, answer: Committed, begun: Iterable[Call], streamed: dict[str, str]
    ) -> None:
        """Notify listeners of a commit: of the calls `begun`, which can be answered from outside, and of woken threads.

        `streamed` is the space of each call that was shown while a model wrote it; those that end leave it.
        """
        for call in begun:
            self.opened(call, unit.run.agent)
        if streamed:
            self._end_streams(unit, streamed)
        for thread_id, _ in answer.runs:
            self.woken(thread_id)

    def _end_streams(self, unit: Advance, streamed: dict[str, str]) -> None:
        """Take back the stream of a call that came to nothing."""
        for post in [effect for effect in unit.effects if isinstance(effect, Post)]:
            streamed.pop(shown_call_id(post.message.id), None)
        for change in [*unit.calls, *unit.changes]:
            status = change.status if isinstance(change, Call) else change.now
            if is_over(status) and (space_id := streamed.pop(change.id, None)) is not None:
                payload: JSONObject = {"streamId": change.id}
                self.publish([live_event("space.message.aborted", unit.run, payload, unit.at, space_id)])


_empty = cast("Callable[[], Any]", list)  # of whatever its field says
"""A new list for whatever its field holds: `list[T]()` takes ten times as long, a few times at every step."""
_empty_dict = cast("Callable[[], Any]", dict)


@dataclass(frozen=True, slots=True)
class Injected:
    """A message that a handler says in the thread with its result."""

    id: str
    role: Literal["user", "assistant"]
    content: str


@dataclass(slots=True, kw_only=True)
class Changes:
    """The changes of one unit of a run, while they are collected.

    `whole` are full results, by call, of which the rows have the beginning and a file the rest.
    """

    messages: list[Message] = field(default_factory=_empty)
    calls: dict[str, Call] = field(default_factory=_empty_dict)
    call_changes: list[CallChange] = field(default_factory=_empty)
    events: list[EventDraft] = field(default_factory=_empty)
    step: Step | None = None
    read: tuple[str, ...] = ()
    nested: tuple[Call, ...] = ()
    edited: tuple[Message, ...] = ()
    injected: Sequence[Injected] = ()
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    inbox: tuple[InboxChange, ...] = ()
    effects: tuple[Intended, ...] = ()
    shown: Mapping[str, str] | None = None
    whole: Mapping[str, JSON] | None = None
    dropped: tuple[int, ...] = ()
    leaving: Leaving | None = None

    def show(self, call_id: str, space_id: str) -> None:
        """Show the call in that space."""
        self.shown = {**(self.shown or {}), call_id: space_id}

    def copy(self) -> "Changes":
        """Return the changes as they are, to be tried again from here."""
        return changed(
            self,
            messages=[*self.messages],
            calls={**self.calls},
            call_changes=[*self.call_changes],
            events=[*self.events],
        )


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run. `fault` tells whether the model made it fail, or anything else, for example what it has read.

    `reason` is the agent's own, for a run that it skips. A thread that is `terminated` with it has no later run.
    """

    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None
    fault: Literal["model", "batch"] = "batch"
    reason: str | None = None
    terminated: bool = False
    error_code: str | None = None


@value
class Next:
    """The next commit of a run: a unit of that kind with these changes, and the run's row after it.

    `ends_step`: all calls of the step are answered with it. `end`: so the run ends with it, unless a message or a
    cancel has come between; if it is `forced`, it ends also then.
    """

    kind: Callable[..., Advance]
    changes: Changes
    run: Run
    ends_step: bool = False
    end: End | None = None
    forced: bool = False
