"""A `ThreadState` in memory, for calls outside a run and for tests."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from toolwright.core.event import EventDraft
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.message import Message
from toolwright.core.plain import emitted
from toolwright.core.run import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a call said that it is."""

    done: float
    total: float | None = None
    text: str | None = None


class MemorySignal:
    """An abort signal that `abort` sets."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def aborted(self) -> bool:
        """Whether `abort` was called."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return once `abort` is called."""
        await self._event.wait()

    def abort(self) -> None:
        """Say that the run is being cancelled."""
        self._event.set()


class MemoryExecution:
    """A place in a run that is not there; `stopped` tells whether a handler ended the session."""

    __slots__ = ("_signal", "current_side", "step_count", "stopped")

    def __init__(self, *, step_count: int = 1, current_side: Side = "side_a") -> None:
        self.step_count = step_count
        self.current_side: Side = current_side
        self.stopped = False
        self._signal: MemorySignal | None = None

    @property
    def abort_signal(self) -> MemorySignal:
        """The signal; a test sets it with `abort()`."""
        if self._signal is None:
            self._signal = MemorySignal()
        return self._signal

    def stop_session(self) -> None:
        """Remember that the session was to end."""
        self.stopped = True


class MemoryState:
    """A thread in memory. What handlers emit and how far they say to be is kept in `events` and `reports`."""

    __slots__ = (
        "_created_at", "_execution", "agent_id", "arguments", "call_id", "events", "messages", "reports",
        "thread_id", "user_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        thread_id: str = "thread",
        agent_id: str = "agent",
        user_id: str | None = None,
        call_id: str = "call",
        arguments: JSONObject | None = None,
        messages: Sequence[Message] = (),
        execution: MemoryExecution | None = None,
        created_at: datetime | None = None,
    ) -> None:
        self.thread_id = thread_id
        self.agent_id = agent_id
        self.user_id = user_id
        self.call_id = call_id
        self.arguments = arguments
        self.messages = messages
        self.events: list[EventDraft] = []
        self.reports: list[Progress] = []
        self._execution = execution
        self._created_at = created_at

    @property
    def created_at(self) -> datetime:
        """When the thread was created: the first time somebody asks, unless it was given."""
        if self._created_at is None:
            self._created_at = datetime.now(UTC)
        return self._created_at

    @property
    def execution(self) -> MemoryExecution:
        """Where in its run the call stands."""
        if self._execution is None:
            self._execution = MemoryExecution()
        return self._execution

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """The given messages, oldest first."""
        return self.messages[offset : offset + limit]

    def emit(self, event_type: str, data: JSON = None) -> None:
        """Keep an event; raises `InvalidRequest` for a faulty type, `InvalidJSON` for what JSON cannot carry."""
        event_type, data = emitted(event_type, data)
        self.events.append(EventDraft(type=event_type, payload={"data": data}))

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Keep a report of progress."""
        self.reports.append(Progress(done=done, total=total, text=text))
