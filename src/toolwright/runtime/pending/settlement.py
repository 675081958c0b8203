"""The end of an open call from outside its run, as a unit: submitted, expired or cancelled (D9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from toolwright.core.files.file import FileChange
from toolwright.core.journal.effects import DropTimer, Effect
from toolwright.core.journal.units import Settle
from toolwright.core.json_value import JSON
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call, timer_of
from toolwright.core.threads.inbox import InboxEvent
from toolwright.wire.event import outcome_event
from toolwright.wire.result import error_object, result_to_json

S = TypeVar("S", bound=Settle)

EXPIRED = ToolResult.fail("Tool call expired")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The context of a settling unit, beside the call.

    `depth` is that of the call's run in a chain of agents, `shown` what is seen of the end in a space.
    """

    token: str
    at: datetime
    depth: int = 0
    shown: Sequence[Effect] = ()


def settlement(
    kind: type[S], call: Call, outcome: ToolResult, settling: Settling, files: Sequence[FileChange] = ()
) -> S:
    """The unit that ends the call so. What the agent's inbox gets is in it, for the case that the call is pending."""
    return kind(
        token=settling.token,
        at=settling.at,
        thread_id=call.thread_id,
        call_id=call.id,
        result=result_to_json(outcome),
        event=outcome_event(call.id, call.name, outcome),
        notice=late_result(call, outcome, settling.depth, settling.at),
        files=tuple(files),
        effects=(*settling.shown, *dropped_timers(call)),
    )


def late_result(call: Call, outcome: ToolResult, depth: int, at: datetime) -> InboxEvent:
    """The inbox event for the result of a call whose run has gone on."""
    content: JSON = error_object(outcome) if outcome.status == "error" else outcome.result
    return InboxEvent(
        thread_id=call.thread_id,
        event_id=f"tr:{call.id}",
        type="tool_result",
        content={
            "toolCallId": call.id,
            "toolName": call.name,
            "originRunId": call.run_id,
            "result": content,
        },
        depth=depth,
        created_at=at,
    )


def dropped_timers(call: Call) -> tuple[Effect, ...]:
    """A call that has a time to expire has a timer, which it needs no longer."""
    return () if call.expires_at is None else (DropTimer(name=timer_of(call.id)),)
