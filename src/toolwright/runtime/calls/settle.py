"""Results of calls: recorded in the call's row, its message and its event, also of calls that their run abandons.

Nothing here commits: what happens is added to `Changes`, which the loop commits as one unit.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from toolwright.core.files import FileDrafts
from toolwright.core.journal.agent_effects import DropTimer, SetTimer
from toolwright.core.json_value import JSONObject, dumps
from toolwright.core.ports import Clock
from toolwright.core.results import AttachmentRef, Pending, ToolResult
from toolwright.core.state.state import ELICIT
from toolwright.core.text import brief
from toolwright.core.threads.call import UNSETTLED, Call, CallMove, CallStatus, timer_of
from toolwright.core.threads.message import Message
from toolwright.core.tools.pipeline import limit_of, timed_out
from toolwright.core.value import changed
from toolwright.runtime.calls.request_state import write_output
from toolwright.runtime.calls.visible import result_message, timeout_message
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.record import source_of
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.mcp import follow
from toolwright.wire.event import outcome_event
from toolwright.wire.result import model_text, result_from_json, result_to_json, s3_pending

SHOWN = 2_000  # characters of edited arguments that the model reads
INTERRUPTED = "Interrupted: the process stopped while this call was running; its effect is unknown."
CANCELLED = "Run cancelled while this call was running; its effect is unknown."


def add_answer(
    context: RunContext,
    changes: Changes,
    call: Call,
    result: ToolResult,
    at: datetime,
    content: str | None = None,
) -> None:
    """Add the tool message with a result, as text or as the given `content`, if the conversation's model reads it.

    The text names the arguments if they were edited.
    """
    if call.parent_id is not None and not context.is_read(call):
        return
    files: tuple[AttachmentRef, ...] = ()
    if result.attachments:
        files = tuple([each for each in result.attachments if isinstance(each, AttachmentRef)])
    if content is None:
        content = model_text(result)
        if call.approval == "edited":
            arguments = brief(call.arguments, SHOWN)
            content = (
                f"{content}\n\n[Before this call was approved, its arguments were changed to {arguments}]"
            )
    message = Message(
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
        status=result.status,
        stack=result.stack,
        attachments=files,
        created_at=at,
    )
    context.add_message(changes, message)


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
    def unknown(self) -> ToolResult:
        """Return the result of a call whose effect is unknown."""
        return ToolResult.fail(self.running, error_code=self.code)

    @property
    def still_open(self) -> ToolResult:
        """Return the error of a call whose result can still arrive."""
        error = f"{self.what} while this call was waiting; a late result arrives in the inbox."
        return ToolResult.fail(error, error_code="still_pending")

    @property
    def unapproved(self) -> ToolResult:
        """Return the result of a call that waited for an approval when its run ended."""
        return ToolResult.fail(f"{self.what} before this call was approved.", error_code="not_begun")


class CallSettler:
    """Adds the results of calls, and the states of waiting ones, to changes."""

    def __init__(self, files: FileKeeper) -> None:
        self._files = files
        self._armed: dict[str, float] = {}

    def wait(self, context: RunContext, changes: Changes, call: Call, pending: Pending) -> None:
        """Make the call wait for a result from outside. Without an inline wait, the run continues at once."""
        now = context.clock.now()
        if pending.task is not None:
            space_id = context.space.visible_space_after(changes)
            changes.effects += follow(call, context.thread.answering, pending.task, space_id, now)
        expires_at = None if pending.expires_in is None else now + timedelta(seconds=pending.expires_in)
        if expires_at is not None:
            changes.effects += (SetTimer(name=timer_of(call.id), due=expires_at),)
        if pending.wait is None:
            move_call(changes, call, "pending", now, expires_at=expires_at)
            notice = ToolResult.ok(s3_pending(call.id))
            add_answer(context, changes, call, notice, now, dumps(notice.result))
            return
        # A server that answered with a task already has the call: its time counts from the call's start, except for a
        # call that is repeated after a crash.
        has_begun = pending.task is not None and call.attempts == 1
        since = (call.started_at if has_begun else None) or now
        endless = math.isinf(pending.wait)  # a child has no time limit
        deadline = None if endless else since + timedelta(seconds=pending.wait)
        move_call(changes, call, "waiting", now, deadline=deadline, expires_at=expires_at)
        self._armed[call.id] = context.clock.monotonic() + pending.wait - (now - since).total_seconds()

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

    def settle(self, context: RunContext, changes: Changes, call: Call, result: ToolResult) -> None:
        """Record a call's result: its row, message and event. The result of a call that did not run is cut here."""
        if call.status == "created" and result.status == "error":
            result = self._files.cut(result)
        if context.values is not None and result.status == "success":
            result = write_output(context, changes, call, result)
        if result.stack is not None or result.error_code is not None:
            result = self._files.recordable(result)
        status: CallStatus = "done" if result.status == "success" else "error"
        at = context.clock.now()
        move_call(changes, call, status, at, result=result_to_json(result))
        # the row has the full result
        if call.status == "created" and result.status == "success":
            result = self._files.cut(result)
        changes.events.append(outcome_event(call.id, call.name, result))
        if call.space_id is not None or changes.shown:
            shown = _with_space(changes, call)
            changes.effects += (*result_message(shown, result, context.author, source_of(context)),)
        add_answer(context, changes, call, result, at)

    def cancel_waiting(self, context: RunContext, changes: Changes, call: Call, result: ToolResult) -> None:
        """Cancel a waiting call whose result can no longer arrive."""
        self._armed.pop(call.id, None)
        if call.awaits_approval and call.expires_at is not None:
            changes.effects += (DropTimer(name=timer_of(call.id)),)
        at = context.clock.now()
        move_call(changes, call, "cancelled", at, result=result_to_json(result))
        changes.events.append(outcome_event(call.id, call.name, result))
        changes.effects += (*result_message(call, result, context.author, source_of(context)),)
        add_answer(context, changes, call, result, at)

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
        add_answer(context, changes, call, result, at)

    def time_out(self, context: RunContext, changes: Changes, call: Call) -> None:
        """End a call's wait: its caller reads an error, and a late result is delivered to the inbox."""
        error = _timeout_of(context, call)
        self._leave_open(context, changes, call, error)
        changes.effects += (*timeout_message(context, call, error),)

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
                case "running" | "waiting":
                    stops = call.ends_with_run and words.stops_children
                    self._abandon(context, changes, call, words, stops=stops)
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
        context.nested[call.id] = call
        if call.status in UNSETTLED:
            is_stopped = context.abort.aborted or results.stops_children
            stops = call.name == ELICIT or (call.ends_with_run and is_stopped)
            self._abandon(context, changes, call, results, stops=stops)

    def _abandon(
        self,
        context: RunContext,
        changes: Changes,
        call: Call,
        results: AbandonedCallResults,
        *,
        stops: bool,
    ) -> None:
        """End a call that no one waits for any more. A waiting call stays open, unless its executor `stops`."""
        if call.status == "waiting" and call.awaits_approval:
            self.cancel_waiting(context, changes, call, results.unapproved)
        elif call.status == "waiting" and stops:
            self.cancel_waiting(context, changes, call, results.unknown)
        elif call.status == "waiting":
            self._leave_open(context, changes, call, results.still_open)
        else:
            self.settle(context, changes, call, results.unknown)

    def result_of(self, context: RunContext, call: Call) -> ToolResult:
        """Return the result of a call as its handler reads it: an error if the call was not answered in time."""
        if call.result is not None:
            return result_from_json(call.result)
        if call.status == "cancelled":
            return ToolResult.fail(
                "The call was cancelled together with the one that it waited for.", error_code="cancelled"
            )
        if call.status == "waiting":
            return ToolResult.fail("The run was cancelled.", error_code="cancelled")
        return ToolResult.ok(s3_pending(call.id)) if call.deadline is None else _timeout_of(context, call)

    def _leave_open(self, context: RunContext, changes: Changes, call: Call, error: ToolResult) -> None:
        """Continue the run with the error. A result can still arrive."""
        self._armed.pop(call.id, None)
        at = context.clock.now()
        move_call(changes, call, "pending", at)
        changes.events.append(outcome_event(call.id, call.name, error))
        add_answer(context, changes, call, error, at, model_text(error))


def _timeout_of(context: RunContext, call: Call) -> ToolResult:
    """Return the error of a call that has waited until its deadline."""
    assert call.deadline is not None, "a waiting call has a deadline"
    seconds = (call.deadline - (call.started_at or call.created_at)).total_seconds()
    tool = context.active.by_name.get(call.name)
    if call.kind == "mcp" and tool is not None:
        # The deadline of a task can include pauses and an interrupted attempt.
        seconds = limit_of(tool) or seconds
    return timed_out(seconds)


def move_call(
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
    """Add a call's transition to the changes, or apply it to a call that these changes insert."""
    space_id = None if changes.shown is None else changes.shown.get(call.id)
    after = call.moved_to(
        now, at, result=result, deadline=deadline, expires_at=expires_at, space_id=space_id, terms=terms
    )
    if call.id in changes.calls:
        changes.calls[call.id] = after
        return
    changes.call_changes.append(CallMove(before=call, after=after))


def _with_space(changes: Changes, call: Call) -> Call:
    """Return the call with the space that it is shown in, also if these changes post it."""
    space_id = None if changes.shown is None else changes.shown.get(call.id)
    return call if space_id is None else changed(call, space_id=space_id)
