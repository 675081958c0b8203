"""Tool calls of a run: started, executed, awaited, and answered to the model.

Nothing here commits: every function puts what happened into a `Changes`, which the loop commits as one unit.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal, Protocol

from toolwright.core.files import FileDrafts
from toolwright.core.journal.effects import DropTimer, SetTimer
from toolwright.core.json_value import JSONObject, dumps
from toolwright.core.limits import CALLS_PER_UNIT
from toolwright.core.ports import Clock
from toolwright.core.results import AttachmentRef, Outcome, Pending, ToolResult
from toolwright.core.state.state import ELICIT
from toolwright.core.text import brief
from toolwright.core.threads.approval import terms_to_json
from toolwright.core.threads.call import Call, CallMove, CallStatus, timer_of
from toolwright.core.threads.message import Message
from toolwright.core.tools.pipeline import (
    PreparedCall,
    answer_by_model,
    internal_result,
    limit_of,
    missing_variables_error,
    prepare,
    timed_out,
)
from toolwright.core.tools.tool import Kind, Tool
from toolwright.core.value import changed
from toolwright.runtime.calls.request_state import resolver, write_output, written_size
from toolwright.runtime.calls.variables import approval_terms, changed_for, missing_for, needs_approval
from toolwright.runtime.calls.visible import outside_any_space, result_message, show
from toolwright.runtime.calls.visible import timeout_message as timed_out_message
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.record import source_of
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.mcp import follow, pin
from toolwright.runtime.state.facts import injected_message
from toolwright.wire.event import outcome_event, tool_event
from toolwright.wire.result import model_text, result_from_json, result_to_json, s3_pending

SHOWN = 2_000  # characters of edited arguments that the model reads
INTERRUPTED = "Interrupted: the process stopped while this call was running; its effect is unknown."
CANCELLED = "Run cancelled while this call was running; its effect is unknown."
STATE_PER_UNIT = 1024 * 1024
"""Maximum characters of JSON that one unit writes to the state and reads from it: some tens of milliseconds."""


def answer_message(
    context: RunContext, changes: Changes, call: Call, result: ToolResult, at: datetime
) -> Message:
    """Return the tool message with a result for the model. It names the arguments if they were edited."""
    files: tuple[AttachmentRef, ...] = ()
    if result.attachments:
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
        seq=context.next_seq(changes),
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


class InlineExecutor(Protocol):
    """Decides a call of its kind without waiting and without I/O."""

    def __call__(self, prepared: PreparedCall) -> Outcome: ...


def wait_outside(prepared: PreparedCall) -> Outcome:
    """Return the pending outcome of a call that a service or a person executes and submits (S3 `isAsync`)."""
    tool = prepared.tool
    return Pending(wait=None if tool.is_async else tool.timeout, expires_in=tool.expires_in)


INLINE_EXECUTORS: Mapping[Kind, InlineExecutor] = {
    "internal": internal_result,
    "latent": answer_by_model,
    "external": wait_outside,
    "space": wait_outside,
}
"""The decision order of a call (S3, D8). Executors that use HTTP are not listed: `Tool.carrier` names them."""


@dataclass(frozen=True, slots=True)
class AbandonedCallResults:
    """The results of calls whose run ends before they do: `what` happened, and text and code for `running` calls.

    `stops_children`: running children are stopped too, so that they deliver no late result.
    """

    what: str
    running: str
    code: str
    stops_children: bool = False

    @property
    def still_open(self) -> str:
        """The error text of a call whose result can still arrive."""
        return f"{self.what} while this call was waiting; a late result arrives in the inbox."

    @property
    def unapproved(self) -> ToolResult:
        """Return the result of a call that waited for an approval when its run ended."""
        return ToolResult.fail(f"{self.what} before this call was approved.", error_code="not_begun")


class Calls:
    """Adds the states and results of calls to changes. `inline_executors` answer without I/O."""

    def __init__(self, inline_executors: Mapping[Kind, InlineExecutor], files: FileKeeper) -> None:
        self._inline_executors = inline_executors
        self._files = files
        self._armed: dict[str, float] = {}

    def begin(
        self,
        context: RunContext,
        calls: Iterable[Call],
        changes: Changes,
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        """Settle the calls that need no executor, in order, and start the first of the others.

        With `parallel`, following calls of read-only tools are started as well, while earlier ones run or wait; every
        other call runs alone. A call that is settled immediately waits for the results of the earlier calls.

        `tools` are the available tools, by default the active agent's. The unit ends before a call whose variable is
        missing or changed by this unit, before a call whose tool must first decide about an approval (`decide`), after
        100 calls, and after a large state, because the unit is built without yielding.
        """
        active, size = context.active, 0
        tools = active.by_name if tools is None else tools
        most = 1 if active.parallel == 1 else max_concurrent(context)
        # counts the earlier calls that run, and whether any earlier call has no result yet
        running, is_held = (0, False)
        for call in islice(calls, CALLS_PER_UNIT):
            if is_held and most == 1:
                return
            if call.status != "created":
                is_running = _status_after(changes, call) == "running"
                if is_running and not can_run_concurrently(tools.get(call.name)):
                    return
                running, is_held = running + is_running, True
                continue
            resolve = None if context.values is None else resolver(context, changes, call)
            prepared = prepare(tools, call.name, call.arguments, call.id, resolve)
            if isinstance(prepared, ToolResult):
                if not running:
                    self.put_outcome(context, changes, call, self._cut(prepared))
                continue
            tool = prepared.tool
            if is_held and not (running < most and can_run_concurrently(tool)):
                return
            needs = self._needs_approval(context, changes, call, tool)
            if needs is None:
                return
            instant = None if needs else self._inline_executors.get(tool.carrier)
            outcome = None if instant is None else instant(prepared)
            if running and outcome is not None and not _is_waited_for(outcome):
                continue
            if tool.visible and not show(context, tools, changes, call, tool, asks=needs):
                if not running:
                    self.settle(context, changes, call, outside_any_space(tool))
                continue
            if needs:
                self._ask(context, changes, call, tool)
            elif outcome is None:
                self._start(context, changes, call, prepared)
                if most == 1 or not can_run_concurrently(tool):
                    return
                running += 1
            else:
                changes.events.append(tool_event("tool.started", call.id, call.name))
                before = changes.effects
                if self.put_outcome(context, changes, call, self._cut(outcome)):
                    size += written_size(before, changes)
                    size += 0 if resolve is None else len(dumps(prepared.arguments))
                    if size > STATE_PER_UNIT:
                        return
                    continue
            is_held = True

    def _needs_approval(self, context: RunContext, changes: Changes, call: Call, tool: Tool) -> bool | None:
        """Return whether the call needs an approval, or None if it cannot start in this unit.

        It cannot start while a variable is missing or set by this unit, or while its tool has not decided.
        """
        if (tool.variables or context.active.nested) and missing_for(context, tool):
            return None
        if changes.env and changed_for(context, tool, changes):
            return None
        return False if tool.approval is None else needs_approval(context, call, tool)

    def _start(self, context: RunContext, changes: Changes, call: Call, prepared: PreparedCall) -> None:
        """Start a call that is executed after this unit is committed."""
        changes.events.append(tool_event("tool.started", call.id, call.name))
        if prepared.tool.kind == "mcp":
            changes.effects += pin(call.agent, prepared.tool, call.created_at)
        context.prepared[call.id] = prepared
        self._move(changes, call, "running", context.clock.now())

    def _ask(self, context: RunContext, changes: Changes, call: Call, tool: Tool) -> None:
        """Suspend the call until it is approved."""
        terms, now = approval_terms(context, changes, call, tool), context.clock.now()
        expires_at = None if terms.seconds is None else now + timedelta(seconds=terms.seconds)
        self._move(changes, call, "waiting", now, expires_at=expires_at, terms=terms_to_json(terms))

    def _cut(self, outcome: Outcome) -> Outcome:
        """Return an immediate outcome as recorded: errors are cut, a success is cut only for the model."""
        if isinstance(outcome, ToolResult) and outcome.status == "error":
            return self._files.cut(outcome)
        return outcome

    def put_outcome(self, context: RunContext, changes: Changes, call: Call, outcome: Outcome) -> bool:
        """Add a call's outcome to the changes. Return False if the run must wait for the call."""
        if isinstance(outcome, ToolResult):
            self.settle(context, changes, call, outcome)
            if changes.injected:
                _inject(context, changes)
            return True
        now = context.clock.now()
        if outcome.task is not None:
            space_id = context.space.shown_after(changes)
            changes.effects += follow(call, context.thread.answering, outcome.task, space_id, now)
        expires_at = None if outcome.expires_in is None else now + timedelta(seconds=outcome.expires_in)
        if expires_at is not None:
            changes.effects += (SetTimer(name=timer_of(call.id), due=expires_at),)
        if outcome.wait is None:
            self._move(changes, call, "pending", now, expires_at=expires_at)
            if call.id not in context.nested:
                text = dumps(s3_pending(call.id))
                context.add_message(changes, call_message(context, changes, call, text, "success", now))
            return True
        # A server that answered with a task already has the call: its time counts from the call's start, except for a
        # call that is repeated after a crash.
        has_begun = outcome.task is not None and call.attempts == 1
        since = (call.started_at if has_begun else None) or now
        endless = math.isinf(outcome.wait)  # a child has no time limit
        deadline = None if endless else since + timedelta(seconds=outcome.wait)
        self._move(changes, call, "waiting", now, deadline=deadline, expires_at=expires_at)
        self._armed[call.id] = context.clock.monotonic() + outcome.wait - (now - since).total_seconds()
        return False

    def seconds_left(self, call: Call, clock: Clock) -> float:
        """Return the seconds that the call can still wait.

        The process that started the wait measures it by the monotonic clock; after a restart the stored deadline
        counts.
        """
        armed = self._armed.get(call.id)
        if armed is not None:
            # Deadlines in the journal have microseconds: a smaller rounding error would be waited for without end.
            return round(armed - clock.monotonic(), 6)
        return math.inf if call.deadline is None else (call.deadline - clock.now()).total_seconds()

    def forget(self, calls: Iterable[str]) -> None:
        """Forget the start times of these calls' waits; no run of this process waits for them any more."""
        for call_id in calls:
            self._armed.pop(call_id, None)

    def begin_again(self, context: RunContext, changes: Changes, call: Call) -> None:
        """Restart a repeatable call that was interrupted by a crash."""
        self._move(changes, call, "running", context.clock.now())
        changes.events.append(tool_event("tool.started", call.id, call.name))

    def settle(self, context: RunContext, changes: Changes, call: Call, result: ToolResult) -> None:
        """Record a call's result: its row, message and event."""
        if context.values is not None and result.status == "success":
            result = write_output(context, changes, call, result)
        if result.stack is not None or result.error_code is not None:
            result = self._files.recordable(result)
        status: CallStatus = "done" if result.status == "success" else "error"
        at = context.clock.now()
        self._move(changes, call, status, at, result=result_to_json(result))
        # it was settled immediately, with its full result
        if call.status == "created" and result.status == "success":
            result = self._files.cut(result)
        changes.events.append(outcome_event(call.id, call.name, result))
        if call.space_id is not None or changes.shown:
            shown = _with_space(changes, call)
            changes.effects += (*result_message(shown, result, context.author, source_of(context)),)
        if call.id in context.nested:  # its handler reads it
            return
        context.add_message(changes, answer_message(context, changes, call, result, at))

    def cancel_waiting(self, context: RunContext, changes: Changes, call: Call, result: ToolResult) -> None:
        """Cancel a waiting call whose result can no longer arrive."""
        self._armed.pop(call.id, None)
        if call.awaits_approval and call.expires_at is not None:
            changes.effects += (DropTimer(name=timer_of(call.id)),)
        at = context.clock.now()
        self._move(changes, call, "cancelled", at, result=result_to_json(result))
        changes.events.append(outcome_event(call.id, call.name, result))
        changes.effects += (*result_message(call, result, context.author, source_of(context)),)
        if call.id not in context.nested:
            context.add_message(changes, answer_message(context, changes, call, result, at))

    async def bounded(self, context: RunContext, changes: Changes, call: Call) -> ToolResult:
        """Return the result of a call that was settled elsewhere, cut to the limit, with the full result in a file."""
        assert call.result is not None, "a settled call has a result"
        result = result_from_json(call.result)
        thread_id, drafts = context.thread.id, FileDrafts(context.files)
        stored = await context.retry_until_available(
            lambda: self._files.report_within_limit(thread_id, drafts, result, call.name)
        )
        if stored is not result:
            changes.files, changes.whole = drafts.changes, {call.id: result.result}
        return stored

    def deliver(
        self, context: RunContext, changes: Changes, call: Call, bounded: ToolResult | None = None
    ) -> None:
        """Add the result of a call settled elsewhere for the model: `bounded`, or the result cut without a file."""
        self._armed.pop(call.id, None)
        assert call.result is not None, "a settled call has a result"
        result, at = bounded or self._files.cut(result_from_json(call.result)), context.clock.now()
        if context.values is not None and result.status == "success":
            result = write_output(context, changes, call, result)
        context.add_message(changes, answer_message(context, changes, call, result, at))

    def time_out(self, context: RunContext, changes: Changes, call: Call) -> ToolResult:
        """End a call's wait: its caller reads an error, and a late result is delivered to the inbox."""
        assert call.deadline is not None, "a waiting call has a deadline"
        began = call.started_at or call.created_at
        seconds = (call.deadline - began).total_seconds()
        tool = context.active.by_name.get(call.name)
        if call.kind == "mcp" and tool is not None:
            # The deadline of a task can include pauses and an interrupted attempt.
            seconds = limit_of(tool) or seconds
        error = timed_out(seconds)
        self._flip(context, changes, call, error)
        changes.effects += (*timed_out_message(context, call, error),)
        return error

    def end_open_calls(
        self, context: RunContext, changes: Changes, words: AbandonedCallResults, below: Iterable[Call] = ()
    ) -> None:
        """Give every unfinished call a result that states its progress, because the run ends.

        Unfinished calls `below` them get one too.
        """
        answered = {message.call_id for message in changes.messages}
        moved = {change.after.id for change in changes.call_changes}
        for call in below:
            if call.id not in moved:
                self.close(context, changes, call, words)
        for call in context.root.unanswered():
            if call.id in answered:
                continue
            match call.status:
                case "created":
                    self.refuse(context, changes, call, words.what)
                case "running" if context.is_to_begin(call):
                    self.refuse(context, changes, call, words.what)
                case "running":
                    self.settle(context, changes, call, ToolResult.fail(words.running, error_code=words.code))
                case "waiting" if call.awaits_approval:
                    self.cancel_waiting(context, changes, call, words.unapproved)
                case "waiting" if call.ends_with_run and words.stops_children:
                    self.cancel_waiting(
                        context, changes, call, ToolResult.fail(words.running, error_code=words.code)
                    )
                case "waiting":
                    self._flip(
                        context, changes, call, ToolResult.fail(words.still_open, error_code="still_pending")
                    )
                case _:
                    self.deliver(context, changes, call)

    def refuse(self, context: RunContext, changes: Changes, call: Call, reason: str) -> None:
        """Settle a call that will not start, for the given `reason`."""
        error = f"{reason} before this call began."
        self.settle(context, changes, call, ToolResult.fail(error, error_code="not_begun"))

    def close(self, context: RunContext, changes: Changes, call: Call, results: AbandonedCallResults) -> None:
        """Close a call whose parent call has ended: a result that arrives later is delivered to the inbox (D9).

        A child thread is stopped together with the run that called it.
        """
        context.put_nested(call)
        match call.status:
            case "created" | "running":
                self.settle(context, changes, call, ToolResult.fail(results.running, error_code=results.code))
            case "waiting" if call.awaits_approval:
                self.cancel_waiting(context, changes, call, results.unapproved)
            case "waiting" if call.name == ELICIT or (
                call.ends_with_run and (context.abort.aborted or results.stops_children)
            ):
                self.cancel_waiting(
                    context, changes, call, ToolResult.fail(results.running, error_code=results.code)
                )
            case "waiting":
                self._flip(
                    context, changes, call, ToolResult.fail(results.still_open, error_code="still_pending")
                )
            case _:
                pass

    def result_of(self, call: Call) -> ToolResult:
        """Return the result of a finished call, or the notice that the result of a pending call arrives later."""
        if call.status == "cancelled" and call.result is None:
            return ToolResult.fail(
                "The call was cancelled together with the one that it waited for.", error_code="cancelled"
            )
        return ToolResult.ok(s3_pending(call.id)) if call.result is None else result_from_json(call.result)

    def refusal(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> ToolResult | None:
        """Return the error of a call awaited in memory if variables are missing, or None (D4)."""
        tool = tools.get(call.name)
        missing = () if tool is None else missing_for(context, tool)
        if not missing:
            return None
        return missing_variables_error(call.name, [each.name for each in missing])

    def interrupted(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> ToolResult | None:
        """Return the result of a call that a crashed process had started, or None if it can run again (D14)."""
        resolve = resolver(context, Changes(), call)
        prepared = prepare(tools, call.name, call.arguments, call.id, resolve)
        if isinstance(prepared, ToolResult) or not prepared.tool.repeatable:
            return ToolResult.fail(INTERRUPTED, error_code="interrupted")
        context.prepared[call.id] = prepared
        return None

    def _flip(self, context: RunContext, changes: Changes, call: Call, error: ToolResult) -> None:
        self._armed.pop(call.id, None)
        at = context.clock.now()
        self._move(changes, call, "pending", at)
        changes.events.append(outcome_event(call.id, call.name, error))
        if call.id not in context.nested:
            context.add_message(changes, call_message(context, changes, call, model_text(error), "error", at))

    def _move(
        self,
        changes: Changes,
        call: Call,
        now: CallStatus,
        at: datetime,
        *,
        result: JSONObject | None = None,
        deadline: datetime | None = None,
        expires_at: datetime | None = None,
        terms: JSONObject | None = None,
    ) -> None:
        space_id = None if changes.shown is None else changes.shown.get(call.id)
        after = call.moved_to(
            now, at, result=result, deadline=deadline, expires_at=expires_at, space_id=space_id, terms=terms
        )
        if call.id in changes.calls:
            changes.calls[call.id] = after
            return
        changes.call_changes.append(CallMove(before=call, after=after))


def max_concurrent(context: RunContext) -> int:
    """Return the maximum number of concurrent calls: 1 if they can refer to each other, or if a handler waits."""
    return 1 if context.values is not None or context.holder is not None else context.active.parallel


def can_run_concurrently(tool: Tool | None) -> bool:
    """Return whether calls of the tool can run concurrently. The conversation of a prompt tool cannot."""
    return tool is not None and tool.read_only and tool.carrier not in ("prompt", "agent")


def _is_waited_for(outcome: Outcome) -> bool:
    """Return whether the call is answered from outside and the run waits for the answer."""
    return not isinstance(outcome, ToolResult) and outcome.wait is not None


def _status_after(changes: Changes, call: Call) -> str:
    """Return the status of the call after these changes."""
    return next(
        (each.after for each in reversed(changes.call_changes) if each.after.id == call.id), call
    ).status


def _inject(context: RunContext, changes: Changes) -> None:
    """Add the handler's messages to the thread after the handler's result."""
    for each in changes.injected:
        context.add_message(changes, injected_message(context, each, context.next_seq(changes)))


def _with_space(changes: Changes, call: Call) -> Call:
    """Return the call with the space that it is shown in, also if these changes post it."""
    space_id = None if changes.shown is None else changes.shown.get(call.id)
    return call if space_id is None else changed(call, space_id=space_id)
