"""Result of a run: output, messages, calls and cost; and its events as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolwright.core.json_value import JSON
from toolwright.core.model import TextDelta
from toolwright.core.results.result import ToolResult
from toolwright.core.schemas.meta import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER, RunStatus, StopReason, Usage
from toolwright.core.value import value


@value
class RunResult:
    """What a run came to.

    `output` is an instance of the type that the agent's prompt declares as its output, else JSON, else the text.
    `text` is what the agent said last. `messages` are those of the run's own conversation and `calls` all that the
    model made in it, in order, each with its result. `cost` is in US dollars, None where prices are not known. Of a
    run that failed `error` says why, and `error_code` tells programs. `thread_id` is the conversation to go on with.
    `files` are the bytes of the files that its messages name, by path, if its journal was in memory and is gone; of any
    other run they are read from the journal (`rt.files.read`).
    """

    status: RunStatus
    output: Any = None  # an instance of whatever was declared
    text: str = ""
    messages: tuple[Message, ...] = ()
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    stop_reason: StopReason | None = None
    error: str | None = None
    error_code: str | None = None
    thread_id: str = ""
    run_id: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])

    @property
    def over(self) -> bool:
        """Return whether the run has ended."""
        return self.status in OVER


def last_text(messages: tuple[Message, ...]) -> str:
    """What the agent said last, empty if it only made calls."""
    return next(
        (each.content for each in reversed(messages) if each.role == "assistant" and each.content), ""
    )


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
    """A call begins; `arguments` are JSON, or the text that the model wrote where that is none."""

    call_id: str
    name: str
    arguments: JSON


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A call tells how far it is: `done` of `total`, None for an unknown one, in units of its own."""

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
    """A step is over: an answer of the model, and all that it called; `number` counts from 1."""

    number: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunDone:
    """The run is over, also if it failed; it is the last event of a run."""

    result: RunResult


RunEvent: TypeAlias = TextDelta | CallStarted | CallProgress | CallDone | CallWaiting | StepDone | RunDone
