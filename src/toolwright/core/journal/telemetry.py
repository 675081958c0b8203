"""Telemetry port: traces and metrics of runs. Without a tracer, no spans are created."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias, TypeVar

from toolwright.core.journal.units import Advance
from toolwright.core.model import Model
from toolwright.core.threads.call import Call, CallMove
from toolwright.core.threads.run import Run

T = TypeVar("T")
Gauge: TypeAlias = Literal[
    "ready",
    "pending_calls",
    "inbox_events",
    "inbox_oldest_seconds",
    "runs_queued",
    "runs_active",
    "runs_waiting",
    "database_connections_used",
    "database_connections_limit",
    "nodes",
    "node_slots",
    "node_slots_busy",
    "node_clock_skew_seconds",
    "wakes_oldest_due_seconds",
]


class RunTrace(Protocol):
    """The spans of one run, while this process executes it.

    Its steps and calls are derived from commits; the active agent and executing calls are reported in addition.
    A `traceparent` is a W3C trace context.
    """

    @property
    def traceparent(self) -> str | None:
        """Return the trace context with which another process continues the run, or None if nothing is traced."""
        ...

    def parent_of(self, changes: Sequence[CallMove]) -> str | None:
        """Return the parent trace context for work that these changes start elsewhere.

        It is the context of the answered call, or of the run.
        """
        ...

    def committed(self, unit: Advance, seconds: float) -> None:
        """Record a committed unit of work and the seconds that the commit took."""
        ...

    def model(self, model: Model, within: str | None, compacted: bool) -> Model:
        """Return the same model, with its next answer traced.

        `within` is the call of the prompt tool that uses it, if any.
        `compacted` is true if the request omits parts of the conversation.
        """
        ...

    def summarizer(self, model: Model) -> Model:
        """Return the same model with its answer traced, for a summary written in parallel to the run."""
        ...

    async def carry_out(self, call_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Execute the work with the span of the call as the current one, and return its result."""
        ...

    def end(self, run: Run) -> None:
        """End the trace: this process no longer executes the run. `run` is its last state."""
        ...


class RequestSpan(Protocol):
    """The span of a tool's request to an external service."""

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The headers that propagate the trace context to the service."""
        ...

    def answered(self, status: int) -> None:
        """Record the HTTP status of the answer."""
        ...


class Telemetry(Protocol):
    """Records traces and metrics of runs."""

    def lead(self, run: Run, agent: str, calls: Sequence[Call]) -> RunTrace | None:
        """Start tracing a run of the named agent; `calls` are those of its last step.

        Returns None if it cannot be traced.
        """
        ...

    def current(self) -> str | None:
        """Return the current trace context."""
        ...

    def of_call(self, call_id: str) -> str | None:
        """Return the trace context of a call that waits for an external result, while this process knows it."""
        ...

    def request(self, method: str, template: str) -> AbstractContextManager[RequestSpan]:
        """Return the span of a request of the current call to a URL with that template, which contains no values."""
        ...

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Set the trace context of a request's headers as the current one within the block."""
        ...

    def settled(self, call: Call, outcome: str) -> None:
        """Record that a pending call was settled from outside its run."""
        ...

    def gauge(self, name: Gauge, value: float | None) -> None:
        """Set the gauge to its current value. None: the value is unknown, and the gauge has no sample."""
        ...

    def streams(self, change: int) -> None:
        """Add to the number of open streams; a negative number for closed ones."""
        ...

    def exposition(self) -> str | None:
        """Return all metrics in the text format of Prometheus, or None if none are recorded."""
        ...

    async def close(self) -> None:
        """Flush pending spans and metrics; waits at most a few seconds."""
        ...
