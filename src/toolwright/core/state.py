"""What a tool's handler is given of the thread and run that call it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.message import Message
from toolwright.core.run import Side


class AbortSignal(Protocol):
    """Says that the run is being cancelled, so that a long handler can stop by itself."""

    @property
    def aborted(self) -> bool:
        """Whether the run is being cancelled."""
        ...

    async def wait(self) -> None:
        """Return once the run is being cancelled."""
        ...


class Execution(Protocol):
    """Where in its run a call stands (S2 §7.2)."""

    @property
    def step_count(self) -> int:
        """The number of the step whose call this is, from 1."""
        ...

    @property
    def current_side(self) -> Side:
        """The side that made the call."""
        ...

    @property
    def abort_signal(self) -> AbortSignal:
        """Set when the run is being cancelled."""
        ...

    def stop_session(self) -> None:
        """End the run as `session_stop` once this call's result is recorded."""
        ...


class ThreadState(Protocol):
    """The thread as a tool's handler sees it. What it writes is committed together with the call's result."""

    @property
    def thread_id(self) -> str:
        """The thread that calls."""
        ...

    @property
    def agent_id(self) -> str:
        """The agent whose thread it is."""
        ...

    @property
    def user_id(self) -> str | None:
        """The user whose thread it is, if it is somebody's."""
        ...

    @property
    def call_id(self) -> str:
        """This call: stable over retries, and so a key for idempotent effects."""
        ...

    @property
    def created_at(self) -> datetime:
        """When the thread was created."""
        ...

    @property
    def arguments(self) -> JSONObject | None:
        """What the thread was created with."""
        ...

    @property
    def execution(self) -> Execution:
        """Where in its run the call stands."""
        ...

    async def get_messages(self, limit: int = 100, offset: int = 0) -> Sequence[Message]:
        """The thread's messages, oldest first, those of the running step included."""
        ...

    def emit(self, event_type: str, data: JSON = None) -> None:
        """Record an event of your own with the call's result; followers of the thread see it then."""
        ...

    def progress(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """Tell live followers how far the call is. Progress is not recorded."""
        ...
