"""The shapes of runs, their events and calls, for the OpenAPI document; `wire` renders them."""

from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from toolwright.core.threads.call import CallStatus
from toolwright.core.threads.run import RunStatus, StopReason
from toolwright.web.answers.shapes import BrokenShape, ListShape, Shape


class UsageShape(Shape):
    """Tokens read and written."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


class StepEntry(Shape):
    """Something said within a step."""

    message_type: Literal[
        "system_message", "user_message", "assistant_message", "tool_call_message", "tool_return_message"
    ]
    content: str
    tool_name: str | None = None
    tool_call_id: str | None = None
    tool_input: JsonValue = None
    created_at: datetime


class StepShape(Shape):
    """One model call and its tool calls."""

    step_number: int
    model_id: str | None
    usage: UsageShape | None
    messages: list[StepEntry]


class RunShape(Shape):
    """A run; `waiting` says what a parked one waits for."""

    id: str
    agent_id: str
    thread_id: str
    status: RunStatus
    stop_reason: StopReason | None
    error: str | None
    output: JsonValue
    chain_depth: int
    usage: UsageShape
    cost: float | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    waiting: dict[str, JsonValue] | None = None


class RunWithSteps(RunShape):
    """A run with its steps."""

    steps: list[StepShape]


class RunAnswer(Shape):
    """One run."""

    run: RunShape


class RunStatusShape(Shape):
    """What a person sees of a run that their message caused in a thread that is not theirs."""

    id: str
    status: RunStatus
    agent_id: str
    started_at: datetime | None
    completed_at: datetime | None


class FullRunAnswer(Shape):
    """One run, whole, or what the caller may see of it."""

    run: RunWithSteps | RunStatusShape
    broken: list[BrokenShape] | None = None


class RunList(ListShape):
    """Runs, the newest first."""

    runs: list[RunShape]


class EventShape(Shape):
    """An event; live ones have no `id` and `seq`."""

    id: str | None = None
    seq: int | None = None
    type: str
    ts: datetime
    thread_id: str
    run_id: str | None = None
    agent_entity_id: str | None = None
    data: dict[str, JsonValue] = Field(description="What happened; its form depends on the type.")


class EventList(ListShape):
    """Recorded events, in order."""

    events: list[EventShape]


class CallShape(Shape):
    """A tool call."""

    call_id: str
    tool_name: str
    args: JsonValue
    status: CallStatus
    visible: bool
    space_id: str | None
    thread_id: str
    run_id: str
    parent_call_id: str | None = None
    agent_entity_id: str | None
    created_at: datetime
    expires_at: datetime | None
    deadline: datetime | None
    result: JsonValue = None
    resolved_at: datetime | None = None


class CallAnswer(Shape):
    """One tool call."""

    call: CallShape


class CallList(ListShape):
    """Calls, the oldest first."""

    calls: list[CallShape]


class ResultTaken(Shape):
    """A result that was handed in."""

    success: Literal[True]
    agent_entity_id: str | None
