"""Events of a run as values: its text as it grows, its calls, its steps and its end."""

from dataclasses import dataclass
from typing import TypeAlias

from toolwright.core.agents.run_result import RunResult
from toolwright.core.json_value import JSON
from toolwright.core.model import TextDelta
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.run import Usage

__all__ = [
    "CallDone",
    "CallProgress",
    "CallStarted",
    "CallWaiting",
    "RunDone",
    "RunEvent",
    "StepDone",
    "TextDelta",
]


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call has started; `arguments` are JSON, or the model's text if that is not valid JSON."""

    call_id: str
    name: str
    arguments: JSON


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call reports progress: `done` of `total` (None if unknown), in its own units."""

    call_id: str
    done: float
    total: float | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class CallDone:
    """A call has its result. There was a `CallStarted` before it."""

    call_id: str
    name: str
    result: ToolResult


@dataclass(frozen=True, slots=True)
class CallWaiting:
    """The run waits for the result of a call; `reason` is that of the run, as in `calls`, `child` or `approval`."""

    call_id: str
    name: str
    arguments: JSON
    reason: str


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step has ended: an answer of the model and its calls; `number` counts from 1."""

    number: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunDone:
    """The run has ended, also if it failed. This is the last event of a run."""

    result: RunResult


RunEvent: TypeAlias = TextDelta | CallStarted | CallProgress | CallDone | CallWaiting | StepDone | RunDone
