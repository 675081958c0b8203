"""Result of a run: output, messages, calls and cost; and its events as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, cast

from typing_extensions import TypeVar

from toolwright.core.json_value import JSON
from toolwright.core.model import ReasoningDelta, TextDelta
from toolwright.core.results import ToolResult
from toolwright.core.schemas.meta import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER, CutReason, RunStatus, StopReason, Usage
from toolwright.core.value import Value, field

__all__ = [
    "CallDone",
    "CallProgress",
    "CallStarted",
    "CallWaiting",
    "ReasoningDelta",
    "RunDone",
    "RunEvent",
    "StepDone",
    "TextDelta",
    "TextReset",
]


Out_co = TypeVar("Out_co", covariant=True, default=Any)
"""The type of a run's output, `Any` if it is not known."""


class RunResult(Value, Generic[Out_co], gc=True):
    """The result of a run.

    `output` is an instance of the declared output type, or JSON, or the text. `text` is the agent's last text.
    `messages` are the messages of the run's own conversation, `calls` its calls in order, each with its result.
    `cost` is in US dollars, None if the prices are unknown. If the run failed, `error` is the message and
    `error_code` the code. Pass `thread_id` to continue the conversation. `files` has the bytes of the messages'
    files by path, if the journal was in memory; otherwise read them with `rt.files.read`.
    """

    status: RunStatus
    output: Out_co = cast("Out_co", None)  # None while the run is open, and after it has failed
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
    """Return the agent's last text, empty if it only made calls."""
    return next(
        (each.content for each in reversed(messages) if each.role == "assistant" and each.content), ""
    )


@dataclass(frozen=True, slots=True)
class TextReset:
    """The current answer begins again: discard its text and reasoning so far. It broke off and was asked again."""


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
    """A call has its result. It follows the call's `CallStarted`."""

    call_id: str
    name: str
    result: ToolResult


@dataclass(frozen=True, slots=True)
class CallWaiting:
    """The run waits for the result of a call; `reason` is the run's reason, such as `calls`, `child` or `approval`.

    `error` says why the previous answer of `approve` was rejected; None the first time, and in streams. `why` is the
    reason of a hook that asks for an approval.
    """

    call_id: str
    name: str
    arguments: JSON
    reason: str
    error: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step has ended: an answer of the model and its calls; `number` counts from 1.

    `stop_reason` says why the answer was not whole; None if it was.
    """

    number: int
    usage: Usage
    stop_reason: CutReason | None = None


@dataclass(frozen=True, slots=True)
class RunDone:
    """The run has ended, successfully or not. This is the last event of a run."""

    result: RunResult


RunEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | TextReset
    | CallStarted
    | CallProgress
    | CallDone
    | CallWaiting
    | StepDone
    | RunDone
)
