"""Execution state of a call in its run, and the run's end that its handler requests."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from toolwright.core.concurrency import Supervision
from toolwright.core.errors import HookFailed, InvalidRequest
from toolwright.core.threads.run import QueuedCall, Side, Usage

Member = TypeVar("Member", bound=Callable[..., object])
Later = TypeVar("Later", bound=Callable[..., Coroutine[Any, Any, object]])  # whatever it yields


class AbortScope(Protocol):
    """A cancel scope that an abort can end: it ends at the event loop time to which it is rescheduled."""

    def expired(self) -> bool: ...

    def reschedule(self, when: float) -> None: ...


class Cancellation:
    """Cancellation of a run, signalled once; it is `aborted` from then on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.aborted = False
        self._scopes: dict[AbortScope, Callable[[], float]] = {}

    async def wait(self) -> None:
        """Return when the run is being cancelled."""
        await self._event.wait()

    def set(self) -> None:
        """Cancel the run: running work is cancelled after its grace period."""
        if not self.aborted:
            self.aborted = True
            self._event.set()
            for scope, grace in self._scopes.items():
                _interrupt(scope, grace())

    def within(self, scope: AbortScope, grace: Callable[[], float] = lambda: 0.0) -> None:
        """Register a scope that an abort ends after `grace()` seconds."""
        self._scopes[scope] = grace
        if self.aborted:
            _interrupt(scope, grace())

    @contextmanager
    def clocks_paused(self) -> Generator[None]:
        """Stop the timeouts of all running handlers while they wait for each other or for a person."""
        with ExitStack() as stack:
            for scope in tuple(self._scopes):
                if isinstance(scope, Supervision):
                    stack.enter_context(scope.paused())
            yield

    def left(self, scope: AbortScope) -> None:
        """Unregister a scope that has ended."""
        self._scopes.pop(scope, None)


def _interrupt(scope: AbortScope, grace: float) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time() + grace)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A request to end the run without a message."""

    reason: str | None


@dataclass(slots=True)
class RunExecution:
    """Execution state of a call in its run. The requested ends take effect once the call's result is recorded.

    A hook, and a function of instructions, only `reads` the thread. A hook that has `failed` ends the run.
    """

    step_count: int
    current_side: Side
    abort: Cancellation
    reads_abort: bool = False
    stopped: bool = False
    side_stopped: bool = False
    terminated: bool = False
    skipped: Skipped | None = None
    failed: HookFailed | None = None
    queued: tuple[QueuedCall, ...] = ()
    over: bool = False
    reads: bool = False
    usage: Usage | None = None
    cost: float | None = None

    @property
    def abort_signal(self) -> Cancellation:
        """Signal of the run's cancellation. A handler that reads it gets a grace period to end by itself."""
        self.reads_abort = True
        return self.abort

    def count(self, usage: Usage, cost: float | None) -> None:
        """Add the usage and cost of a model request made within this call."""
        self.usage = usage if self.usage is None else self.usage + usage
        self.cost = self.cost if cost is None else (self.cost or 0.0) + cost

    def stop_side(self) -> None:
        """End the turn of the active side once this call's result is recorded."""
        self.check()
        self.side_stopped = True

    def stop_session(self) -> None:
        """End the run as `session_stop` once this call's result is recorded."""
        self.check()
        self.stopped = True

    def check(self) -> None:
        """Raise `InvalidRequest` if there is no call, or it has ended: its writes would be lost."""
        if self.reads:
            raise InvalidRequest("Only a tool's handler can change its thread. Here the state is read-only.")
        if self.over:
            raise InvalidRequest("This call has ended: it can no longer change its thread.")

    @property
    def ends(self) -> bool:
        """Return whether the turn or the run ends after this call."""
        return self.stopped or self.side_stopped or self.skipped is not None or self.failed is not None

    def adopt(self, below: "RunExecution") -> None:
        """Adopt the requests, the usage and the queued calls of a call that this one has made."""
        self.adopt_ends(below)
        self.queued = (*self.queued, *below.queued)
        if below.usage is not None:
            self.count(below.usage, below.cost)

    def adopt_ends(self, below: "RunExecution") -> None:
        """Adopt the requests to end the turn or the run, of a call in a conversation within this one."""
        self.stopped |= below.stopped
        self.side_stopped |= below.side_stopped
        self.terminated |= below.terminated
        self.skipped = self.skipped or below.skipped
        self.failed = self.failed or below.failed


class CallWrites(Protocol):
    """A call whose writes are rejected after it has ended."""

    @property
    def execution(self) -> RunExecution:
        """Execution of the call."""
        ...


def writes(member: Member) -> Member:
    """Make a write raise `InvalidRequest` after the call has ended."""

    @wraps(member)
    def checked(state: CallWrites, *args: object, **named: object) -> object:
        state.execution.check()
        return member(state, *args, **named)

    return cast("Member", checked)  # the wrapper has the signature of the member


def writes_later(member: Later) -> Later:
    """Make an async write raise `InvalidRequest`, also if the call has ended in the meantime."""

    @wraps(member)
    async def checked(state: CallWrites, *args: object, **named: object) -> object:
        state.execution.check()
        written = await member(state, *args, **named)
        state.execution.check()
        return written

    return cast("Later", checked)  # as above
