"""What a model reads of a call."""

from typing import Literal

from toolwright.core.results.content import AttachmentRef
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Move
from toolwright.wire.result import model_text


def answer_message(hold: Hold, move: Move, call: Call, result: ToolResult) -> Message:
    """What the model reads of a result."""
    files = tuple([each for each in result.attachments if isinstance(each, AttachmentRef)])
    return call_message(hold, move, call, model_text(result), result.status, result.stack, files)


def call_message(
    hold: Hold,
    move: Move,
    call: Call,
    content: str,
    status: Literal["success", "error"],
    stack: str | None = None,
    attachments: tuple[AttachmentRef, ...] = (),
) -> Message:
    return Message(
        id=hold.new_id("msg"),
        role="tool",
        content=content,
        seq=hold.place(move),
        run_id=call.run_id,
        step=call.step,
        side=hold.side,
        within=call.parent_id,
        call_id=call.id,
        model_call_id=call.model_call_id,
        tool_name=call.name,
        status=status,
        stack=stack,
        attachments=attachments,
        created_at=hold.clock.now(),
    )
