"""The result of a run: what it answered, said, called and cost."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from toolwright.core.schemas.meta import Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER, RunStatus, StopReason, Usage
from toolwright.core.value import value


@value
class RunResult:
    """The result of a run.

    `output` is an instance of the declared output type, or JSON, or the text. `text` is the agent's last text.
    `messages` are the messages of the run's own conversation, `calls` its calls in order, each with its result.
    `cost` is in US dollars, None if the prices are unknown. If the run failed, `error` is the message and
    `error_code` the code. Pass `thread_id` to continue the conversation. `files` has the bytes of the messages'
    files by path, if the journal was in memory; otherwise read them with `rt.files.read`.
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
