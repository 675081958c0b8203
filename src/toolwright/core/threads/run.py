"""Runs and steps: one activation of a thread, and one model call with its tool calls."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.value import Record, Stored, Value, field

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "completed", "failed", "cancelled", "skipped"]
CutReason: TypeAlias = Literal["max_tokens", "refusal", "content_filter", "empty"]
"""Why a model's answer is not whole: its output limit, its refusal, its provider's filter, or it has no content."""
StopReason: TypeAlias = Literal[
    "end_turn", "stop_tool", "max_steps", "max_seconds", "session_stop", "session_fail", "rejected", CutReason
]
CUTS: tuple[CutReason, ...] = get_args(CutReason)
Side: TypeAlias = Literal["side_a", "side_b"]
OVER: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled", "skipped"})


def cut_reason(written: object) -> CutReason | None:
    """Return the reason why an answer is not whole, or None for any other value."""
    return next((each for each in CUTS if each == written), None)


class Usage(Value):
    """Numbers of tokens read and written. `input_tokens` includes cached tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


class QueuedCall(Value):
    """A call queued by a handler; `arguments` is JSON text.

    `within` is the call of the prompt tool in whose conversation it is made, or None for the top-level conversation.
    """

    name: str
    arguments: str
    within: str | None = None


class Run(Record):
    """One activation of a thread.

    `held` is true while a process executes it. A `running` run whose process has died was interrupted. `lives` counts
    such recoveries since the run's last commit, `isolated` those in which it was the only suspect that was executed.
    `waiting` is the reason why a run is suspended. `cost` is in US dollars, or None if the provider's prices are
    unknown. `output` is the last answer. `revision` is the configured agent's revision at the start of the run, or None
    for an agent that the app declares. `side` is the active side, and `turn` counts finished turns. `queued` are calls
    to be made without the model. A `calls_only` run executes external calls without a model and ends with them.
    `traceparent` is the W3C trace context of the run, or None. `error_code` is the machine-readable cause of a failure,
    or None. `decisions` tell who has cancelled or retried it, oldest first. `deps` is the value that the caller passed
    to the run's tools, as JSON, or None.
    """

    STORED = Stored(key=("id",), owner="thread_id")

    id: str
    thread_id: str
    agent: str
    status: RunStatus = "queued"
    stop_reason: StopReason | None = None
    error: str | None = None
    step_count: int = 0
    turn: int = 0
    side: Side = "side_a"
    chain_depth: int = 0
    lives: int = 0
    isolated: int = 0
    held: bool = False
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    output: JSON = None
    waiting: JSONObject | None = None
    cancel_requested_at: datetime | None = None
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    revision: int | None = None
    queued: tuple[QueuedCall, ...] = ()
    calls_only: bool = False
    traceparent: str | None = None
    error_code: str | None = None
    decisions: tuple[JSONObject, ...] = ()
    deps: JSONObject | None = None

    def queued_in(self, within: str | None) -> tuple[QueuedCall, ...]:
        """Return the calls queued in that prompt tool's call, or in the top-level conversation for None."""
        return tuple([each for each in self.queued if each.within == within]) if self.queued else ()

    @property
    def over(self) -> bool:
        """Return whether the run has finished."""
        return self.status in OVER

    @property
    def is_reopened(self) -> bool:
        """Return whether the run had finished, was queued again (external calls, a retry) and is not claimed yet."""
        return self.status == "queued" and self.started_at is not None and self.error is None


class Step(Record):
    """One model call and its tool calls; `number` counts 1, 2, 3 … within the run.

    `finish_reason` is the provider's reason for the end of the answer, or a `CutReason` if the answer is not whole.
    """

    STORED = Stored(key=("run_id", "number"), owner="run_id")

    run_id: str
    number: int
    model: str
    usage: Usage
    cost: float | None
    finish_reason: str | None
    created_at: datetime

    @property
    def cut(self) -> CutReason | None:
        """Why the answer is not whole, or None."""
        return cut_reason(self.finish_reason)
