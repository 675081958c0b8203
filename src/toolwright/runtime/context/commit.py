"""Commits of a run: the changes of a unit, the writer that retries until the unit is written, and the listeners."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias, TypeVar, cast

from toolwright.core.concurrency import Callers
from toolwright.core.env.env import EnvChange
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.files import FileChange
from toolwright.core.journal.child_effects import Spawn
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.space_effects import Post
from toolwright.core.journal.store import Outage, Store
from toolwright.core.journal.units import Advance, Committed, Conflict, Leaving
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import longer_delay
from toolwright.core.ports import Clock
from toolwright.core.threads.call import Call, CallMove, is_over
from toolwright.core.threads.event import Event, EventDraft
from toolwright.core.threads.inbox import InboxChange
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, RunStatus, Step, StopReason
from toolwright.core.value import Value, changed
from toolwright.wire.call import shown_call_id
from toolwright.wire.event import live_event

log = logger("toolwright.runtime")
T = TypeVar("T")

DRAIN_SLICE = 0.02  # seconds that a run executes before other tasks get a turn


Answered: TypeAlias = Literal["done"] | Guard
"""The unit is committed, or the guard that failed and that the run can handle."""

Reaction: TypeAlias = Literal[
    "lost",  # another process owns the thread: this run writes nothing more
    "rebuilt",  # the unit is rebuilt from the current state
    "space",  # the thread's space is re-read, and the unit is rebuilt
    "inbox",  # the inbox is re-read
    "calls",  # the calls are re-read
    "compactions",  # the summaries are re-read
    "cancelled",  # the run's work is cancelled
    "refused",  # the call that caused the effect fails
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
    "deps": "refused",
}
"""The run's reaction to each guard that one of its units can fail."""

REBUILT: frozenset[Answered] = frozenset(
    [guard for guard, reaction in REACTIONS.items() if reaction in ("rebuilt", "space")]
)
"""The guards after which a unit is rebuilt: files, spaces or other threads have changed since it was built.

After any other guard the context has re-read the changed state, and the run continues from it.
"""


class ThreadLost(Exception):
    """Raised when another process owns the thread. This process writes nothing more to it."""


class EffectRefused(ThreadLost):
    """Raised when a row that a unit's effect depends on was changed or deleted since it was read.

    A call fails with this message and code. Any other unit is dropped, and the thread is claimed again.
    """

    code = "conflict"

    def __init__(self, guard: Guard) -> None:
        what = "The same" if guard == "duplicate" else f"The {guard.replace('_', ' ')}"
        end = "exists already" if guard == "duplicate" else "has changed, or is gone, since this call read it"
        self.message = f"{what} {end}: nothing of this call was written. Read it again, then retry."
        super().__init__(self.message)


class UnitWriter:
    """Writes the units of one claim of a thread, in order. `nonce` is unique to the claim."""

    def __init__(self, store: Store, clock: Clock, thread_id: str, nonce: str, outage: Outage) -> None:
        self._store = store
        self._clock = clock
        self._thread_id = thread_id
        self._outage = outage
        self.tokens: Iterator[str] = map(f"{nonce}.{{}}".format, count(1))
        """Unique names for the units, cheaper than new ids."""
        self._pause_at = clock.monotonic() + DRAIN_SLICE
        self._unwritten: Advance | None = None

    async def write(self, unit: Advance) -> Committed | Conflict:
        """Commit the unit. Raises `Unwritable` if the journal cannot hold it.

        The in-memory journal never suspends the task, so this method yields to other tasks every `DRAIN_SLICE`.
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
            self._unwritten = None
            raise
        self._unwritten = None
        return answer

    async def _write_again(self, unit: Advance, error: StoreError) -> Committed | Conflict:
        """Commit the unit after the journal was unavailable."""
        delay = await self._back_off(error, None)
        return await self.retry_until_available(lambda: self._store.commit(unit), delay)

    async def write_once(self, unit: Advance) -> Committed | Conflict:
        """Commit the unit once; raises `StoreError`."""
        return await self._store.commit(unit)

    def left(self) -> Advance | None:
        """Return the unit whose write was interrupted, or None."""
        unit, self._unwritten = self._unwritten, None
        return unit

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
        """Wait longer than the previous time. Return the number of seconds waited."""
        self._outage.failed(error)
        log.debug("Thread %s waits for the journal: %s", self._thread_id, error)
        delay = longer_delay(delay)
        await self._clock.sleep(delay)
        return delay


Opened: TypeAlias = Callable[[Call, str], None]
"""Notified of a call that can be answered from outside from now on, and of the id of the agent that made it."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Listeners of commits: threads `woken`, calls `opened` to workers, live events to `publish`, outages to count."""

    woken: Callable[[str], None]
    opened: Opened
    publish: Callable[[Sequence[Event]], None]
    outage: Outage
    callers: Callers

    def notify(
        self, unit: Advance, answer: Committed, begun: Iterable[Call], streamed: dict[str, str]
    ) -> None:
        """Notify listeners of a commit: of the calls `begun`, which can be answered from outside, and of woken threads.

        `streamed` maps each call that was shown while a model wrote it to its space; finished calls are removed.
        """
        for call in begun:
            self.opened(call, unit.run.agent)
        if streamed:
            self._end_streams(unit, streamed)
        for effect in unit.effects:
            if isinstance(effect, Spawn):
                self.callers.add_child(effect.thread.id, unit.run.thread_id)
        for thread_id, _ in answer.runs:
            self.woken(thread_id)

    def _end_streams(self, unit: Advance, streamed: dict[str, str]) -> None:
        """Abort the streams of calls that ended without being posted."""
        for post in [effect for effect in unit.effects if isinstance(effect, Post)]:
            streamed.pop(shown_call_id(post.message.id), None)
        for call in [*unit.calls, *[change.after for change in unit.changes]]:
            if is_over(call.status) and (space_id := streamed.pop(call.id, None)) is not None:
                payload: JSONObject = {"streamId": call.id}
                self.publish([live_event("space.message.aborted", unit.run, payload, unit.at, space_id)])


_empty = cast("Callable[[], Any]", list)  # typed by the field that uses it
"""Factory of an empty list for a field of any type. `list[T]()` is ten times slower and runs several times per step."""
_empty_dict = cast("Callable[[], Any]", dict)


@dataclass(frozen=True, slots=True)
class Injected:
    """A message that a handler adds to the thread after its result."""

    id: str
    role: Literal["user", "assistant"]
    content: str


@dataclass(slots=True, kw_only=True)
class Changes:
    """The changes of one unit of a run, while they are collected.

    `whole` maps a call to its full result, where the row holds the beginning and a file the rest. `is_restart`: calls
    that a crash interrupted are executed again, which is no progress of the run.
    """

    messages: list[Message] = field(default_factory=_empty)
    calls: dict[str, Call] = field(default_factory=_empty_dict)
    call_changes: list[CallMove] = field(default_factory=_empty)
    events: list[EventDraft] = field(default_factory=_empty)
    step: Step | None = None
    read: tuple[str, ...] = ()
    nested: tuple[Call, ...] = ()
    edited: tuple[Message, ...] = ()
    injected: Sequence[Injected] = ()
    files: tuple[FileChange, ...] = ()
    env: tuple[EnvChange, ...] = ()
    inbox: tuple[InboxChange, ...] = ()
    effects: tuple[Effect, ...] = ()
    shown: Mapping[str, str] | None = None
    whole: Mapping[str, JSON] | None = None
    dropped: tuple[int, ...] = ()
    leaving: Leaving | None = None
    is_restart: bool = False

    def show(self, call_id: str, space_id: str) -> None:
        """Show the call in the space."""
        self.shown = {**(self.shown or {}), call_id: space_id}

    def copy(self) -> "Changes":
        """Return a copy of the changes, from which a rebuild can start."""
        return changed(
            self,
            messages=[*self.messages],
            calls={**self.calls},
            call_changes=[*self.call_changes],
            events=[*self.events],
        )


@dataclass(frozen=True, slots=True)
class End:
    """The end of a run. `fault` is the cause of a failure: the model, or anything else, such as an event that it read.

    `reason` is the agent's own reason for a skipped run. If `terminated`, the thread has no later run.
    """

    status: RunStatus
    stop_reason: StopReason | None = None
    error: str | None = None
    fault: Literal["model", "batch"] = "batch"
    reason: str | None = None
    terminated: bool = False
    error_code: str | None = None


class Next(Value, gc=True):
    """The next commit of a run: a unit of the kind with these changes, and the run's row after it.

    `ends_step`: the unit answers all calls of the step. `end`: the run ends with the unit, unless a message or a cancel
    request has arrived in the meantime. If `forced`, the run ends even then.
    """

    kind: Callable[..., Advance]
    changes: Changes
    run: Run
    ends_step: bool = False
    end: End | None = None
    forced: bool = False
