"""Run loop: decide the next action, execute it and commit its outcome, until the run ends or is suspended.

`next_action` decides from the run's context alone: its record, the clock and the cancellation. It does no I/O.
`Actions` (`act.py`) executes the action and commits the outcome as a unit (`outcomes.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias

from toolwright.core.agents.active import steps_of
from toolwright.core.results import ToolResult
from toolwright.core.text import quantity
from toolwright.core.threads.call import Call
from toolwright.core.threads.inbox import FAULT, InboxEvent
from toolwright.core.threads.run import QueuedCall, Run, StopReason
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.value import Value
from toolwright.runtime.calls.plan import can_run_concurrently, max_concurrent
from toolwright.runtime.context.commit import End
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame

MAX_AT_ONCE = 100  # external calls that one unit starts


class SelectAgent(Value):
    """Select the agent, prompt and tools of the next step."""


class EndRun(Value):
    """End the run. If it is not `forced`, a message that joins the run in the meantime keeps it running."""

    end: End
    forced: bool = True


class TakeOutsideCalls(Value):
    """Record external calls, and start them, or reject them for the reason `refused`."""

    events: Sequence[InboxEvent]
    refused: Literal["invalid", "handed_over"] | None = None


class AnswerMessages(Value):
    """Continue a run of external calls as a run that calls the model, because a message has joined it."""


class MakeCalls(Value):
    """Make calls that a handler or a prompt has queued."""

    queued: Sequence[QueuedCall]


class CheckVariables(Value):
    """Re-read the env, and suspend the run if variables are missing."""


class CallImmediately(Value):
    """Make the calls that the active prompt declares as immediate (S0 §5)."""


class AskModel(Value):
    """Call the model of the innermost conversation."""


class StartCall(Value):
    """Start the next call. It waits for missing variables and for its approval."""

    call: Call


class ExecuteCall(Value):
    """Execute a started call."""

    call: Call
    prepared: PreparedCall


class ExecuteConcurrently(Value):
    """Execute all started calls concurrently."""


class EnterPrompt(Value):
    """Enter the conversation of a prompt tool."""

    call: Call
    prepared: PreparedCall


class LeavePrompt(Value, gc=True):
    """Return the answer of a prompt tool to its caller: `error`, or its model's last message."""

    frame: Frame
    error: ToolResult | None = None


class RecoverCalls(Value):
    """Restart or settle calls that another process was executing when it crashed."""

    calls: Sequence[Call]


class WaitForCalls(Value):
    """Wait for results from elsewhere, first in memory, then suspended."""

    calls: Sequence[Call]


class DeliverResult(Value):
    """Deliver the result of a call that was settled elsewhere."""

    call: Call


Action: TypeAlias = (
    AskModel
    | ExecuteCall
    | ExecuteConcurrently
    | WaitForCalls
    | StartCall
    | DeliverResult
    | RecoverCalls
    | EnterPrompt
    | LeavePrompt
    | SelectAgent
    | CheckVariables
    | MakeCalls
    | CallImmediately
    | TakeOutsideCalls
    | AnswerMessages
    | EndRun
)
"""The next action of a run."""


async def execute(context: RunContext, do: Callable[[RunContext, Action], Awaitable[None]]) -> None:
    """Execute the run until it ends or is suspended, or until the process stops."""
    task = asyncio.current_task()
    assert task is not None, "a run is executed by a task"
    # also if a handler has suppressed the cancellation that the process sends when it stops
    while not task.cancelling() and (action := next_action(context)) is not None:
        await do(context, action)


def next_action(context: RunContext) -> Action | None:
    """Return the next action of the run, None if this process has nothing more to do for it. No I/O."""
    if context.run.status != "running":
        return None
    if context.stopping:
        return _started(context)
    if context.selected is None:
        return SelectAgent()
    if context.abort.aborted:
        return EndRun(end=End("cancelled"))
    return next_in_conversation(context)


def _started(context: RunContext) -> ExecuteCall | None:
    """Execute a call that is started when the process stops: if it were left, its effect would be unknown."""
    if context.abort.aborted or not context.prepared or not context.frame.open:
        return None
    action = _next_of_calls(context, context.frame)
    return action if isinstance(action, ExecuteCall) else None


def next_in_conversation(context: RunContext) -> Action:
    """Return the next action of the innermost conversation: the thread's own, or a prompt tool's."""
    frame = context.frame
    if frame.open:
        return _next_of_calls(context, frame)
    return _next_of_thread(context) if frame.call is None else _next_of_prompt(context, frame)


def _next_of_calls(context: RunContext, frame: Frame) -> Action:
    """Return the next action for the calls of a step that have no result yet, in their order."""
    concurrent = len(frame.open) > 1 and max_concurrent(context) > 1
    calls = _next_calls(context) if concurrent else [next(iter(frame.open.values()))]
    call = calls[0]
    if call.status == "running":
        prepared = context.prepared.get(call.id)
        if prepared is None:
            return RecoverCalls(calls=calls)
        if concurrent and can_run_concurrently(prepared.tool):
            return ExecuteConcurrently()
        if prepared.tool.carrier == "prompt":
            return EnterPrompt(call=call, prepared=prepared)
        return ExecuteCall(call=call, prepared=prepared)
    if call.status == "waiting":
        return WaitForCalls(calls=calls)
    return StartCall(call=call) if call.status == "created" else DeliverResult(call=call)


def _next_calls(context: RunContext) -> list[Call]:
    """Return the calls to advance together in a step with concurrent calls.

    Calls interrupted by a crash are restarted before any call runs; results submitted elsewhere are recorded first.
    """
    calls = context.frame.unanswered()
    running = [call for call in calls if call.status == "running"]
    lost = [call for call in running if call.id not in context.prepared]
    settled = [call for call in calls if call.status not in ("created", "running", "waiting")]
    first = lost or settled[:1] or running
    if first:
        return first
    return calls[:1] if calls[0].status == "created" else [call for call in calls if call.status == "waiting"]


def _next_of_thread(context: RunContext) -> Action:
    """Return the next action of the thread's own conversation between two steps."""
    run, active = context.run, context.root.active
    if not (context.selected or context.agent_unchanged) or active is None:
        return SelectAgent()
    if context.inbox and (asked := context.joined_calls()):
        return _outside_calls(context, asked)
    queued = run.queued_in(None) if run.queued else ()
    if context.answers_nothing and not queued:
        return EndRun(end=end_of_calls(run))
    if run.calls_only and context.joined():
        return AnswerMessages()
    if run.calls_only and not queued:
        return EndRun(end=end_of_calls(run), forced=False)
    if queued and _rounds(context) <= context.max_steps:
        return MakeCalls(queued=queued)
    limit = "max_steps" if queued else exhausted(context)
    if limit is not None:
        return EndRun(end=End("completed", limit))
    if (active.variables or context.thread.parent_id is not None) and not context.variables_checked:
        return CheckVariables()
    if active.relations and _calls_immediately(context):
        return CallImmediately()
    return AskModel()


def _outside_calls(context: RunContext, asked: Sequence[InboxEvent]) -> TakeOutsideCalls:
    """Return the action for external calls: first those for another agent, then consecutive calls of the same kind."""
    lost = [event for event in asked if event.content["agent"] != context.thread.answering]
    if lost:
        return TakeOutsideCalls(events=lost, refused="handed_over")
    is_invalid = FAULT in asked[0].content
    first = takewhile(lambda event: (FAULT in event.content) == is_invalid, asked[:MAX_AT_ONCE])
    return TakeOutsideCalls(events=[*first], refused="invalid" if is_invalid else None)


def _calls_immediately(context: RunContext) -> bool:
    """Return whether the prompt that became active has immediate calls that were not made yet."""
    is_new = context.run.side not in context.thread.activated
    return is_new and any(each.config.immediate for each in context.active.relations)


def _next_of_prompt(context: RunContext, frame: Frame) -> Action:
    """Return the next action in the conversation of a prompt tool between two of its steps."""
    last = frame.messages[-1] if frame.messages else None
    if last is not None and last.role == "assistant" and not last.calls:
        return LeavePrompt(frame=frame)
    if frame.steps >= context.max_steps:
        steps = quantity(context.max_steps, "step")
        error = f"The prompt {context.active.prompt.name!r} came to no answer in {steps}."
        return LeavePrompt(frame=frame, error=ToolResult.fail(error, error_code="max_steps"))
    queued = context.run.queued_in(frame.id)
    return MakeCalls(queued=queued) if queued else AskModel()


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def end_of_calls(run: Run) -> End:
    """Return the end of a run of external calls: the same as before, if it had already ended."""
    return End("completed", run.stop_reason or "end_turn")


def limit_end(context: RunContext, run: Run) -> End | None:
    """Return the end of a run that has reached a limit, or whose external calls are answered. None if it continues."""
    if run.calls_only:
        return None if context.joined() else end_of_calls(run)
    if run.step_count >= context.most_steps:
        return End("completed", "max_steps")
    if context.time_limit is not None and context.seconds_left() <= 0:
        return End("completed", "max_seconds")
    return None


def exhausted(context: RunContext) -> StopReason | None:
    """Return the limit of the run or of the active side that prevents another step, or None."""
    if context.run.calls_only:
        return None
    if context.time_limit is not None and context.seconds_left() <= 0:
        return "max_seconds"
    if context.run.step_count >= context.most_steps:
        return "max_steps"
    active = context.root.active
    if context.speaker is None or active is None or active.max_steps is None:
        return None
    made = steps_of(context.speaker, context.root.messages, context.run, context.side)
    return "max_steps" if made >= active.max_steps else None


def _rounds(context: RunContext) -> int:
    """Return the number of rounds of calls since the last answer of the model, including its own."""
    run = context.run
    return sum(
        m.run_id == run.id and m.role == "assistant" and m.step == run.step_count
        for m in context.root.messages
    )
