"""Messages for the model about calls, also about those whose run ends first; calls that no process here executes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import Outcome, Pending, ToolResult
from toolwright.core.text import brief
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.core.tools.pipeline import PreparedCall, answer_by_model, internal_result
from toolwright.core.tools.tool import Kind
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.wire.result import model_text

SHOWN = 2_000  # characters of changed arguments that the model is told


def answer_message(
    context: RunContext, changes: Changes, call: Call, result: ToolResult, at: datetime
) -> Message:
    """The tool message by which the model reads a result, and with which arguments if they are not its own."""
    files = tuple([each for each in result.attachments if isinstance(each, AttachmentRef)])
    text = model_text(result)
    if call.approval == "edited":
        arguments = brief(call.arguments, SHOWN)
        text = f"{text}\n\n[Before this call was approved, its arguments were changed to {arguments}]"
    return call_message(context, changes, call, text, result.status, at, result.stack, files)


def call_message(
    context: RunContext,
    changes: Changes,
    call: Call,
    content: str,
    status: Literal["success", "error"],
    at: datetime,
    stack: str | None = None,
    attachments: tuple[AttachmentRef, ...] = (),
) -> Message:
    return Message(
        id=context.new_id("msg"),
        role="tool",
        content=content,
        seq=context.place(changes),
        run_id=call.run_id,
        step=call.step,
        side=context.side,
        within=call.parent_id,
        call_id=call.id,
        model_call_id=call.model_call_id,
        tool_name=call.name,
        status=status,
        stack=stack,
        attachments=attachments,
        created_at=at,
    )


class Instant(Protocol):
    """Decides a call of its kind without any wait or outside world."""

    def __call__(self, prepared: PreparedCall) -> Outcome: ...


def wait_outside(prepared: PreparedCall) -> Outcome:
    """Someone outside carries the call out and submits its result, a service or a person (S3 `isAsync`)."""
    tool = prepared.tool
    return Pending(wait=None if tool.is_async else tool.timeout, expires_in=tool.expires_in)


INSTANTS: Mapping[Kind, Instant] = {
    "internal": internal_result,
    "latent": answer_by_model,
    "external": wait_outside,
    "space": wait_outside,
}
"""The decision order of a call (S3, D8). What goes over HTTP is not here: `Tool.carrier` names its executor."""


INTERRUPTED = "Interrupted: the process stopped while this call was running; its effect is unknown."
CANCELLED = "Run cancelled while this call was running; its effect is unknown."


@dataclass(frozen=True, slots=True)
class AbandonedCallResults:
    """The result of a call whose run ends before it: `what` happened, and the text and code if it was `running`.

    `stops_children`: children in progress are stopped with it, so that no late result of theirs can come.
    """

    what: str
    running: str
    code: str
    stops_children: bool = False

    @property
    def still_open(self) -> str:
        """The text that a call reads whose result may still come."""
        return f"{self.what} while this call was waiting; a late result arrives in the inbox."

    @property
    def unapproved(self) -> ToolResult:
        """The result of a call that waited for an approval, which nobody can give any more."""
        return ToolResult.fail(f"{self.what} before this call was approved.", error_code="not_begun")
