"""Outcomes of actions as units: a model's answer or a call's result, together with its consequences.

Each function builds the `Next` that is committed. They do no I/O except for the files and effects of a result.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from toolwright.core.agents.active import CallSummary, after_calls, after_text, side_over
from toolwright.core.env.logs import logger
from toolwright.core.errors import HookFailed
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.child_effects import HandOff
from toolwright.core.journal.space_effects import KeepTexts
from toolwright.core.journal.units import Advance, Answer, Result
from toolwright.core.model import ModelResponse, call_not_executed
from toolwright.core.requests.speaker import ComposedForm
from toolwright.core.results import Outcome, Pending, ToolResult
from toolwright.core.schemas.output import (
    MAX_CORRECTIONS,
    OUTPUT_FAULT,
    FormedAnswer,
    InvalidAnswer,
    correction,
)
from toolwright.core.text import brief, sentence
from toolwright.core.threads.call import Call
from toolwright.core.threads.inbox import FAULT, InboxEvent
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import CutReason, QueuedCall, Run, StopReason, Usage
from toolwright.core.value import changed
from toolwright.runtime.calls.execute import CallExecutor, CheckedResult, HandlerOutcome, with_result
from toolwright.runtime.calls.nested import Nested, config_of
from toolwright.runtime.calls.plan import CallPlanner, can_run_concurrently
from toolwright.runtime.calls.settle import AbandonedCallResults, CallSettler
from toolwright.runtime.context.commit import Changes, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.execution import RunExecution
from toolwright.runtime.context.record import CALL_ID
from toolwright.runtime.hooks import SentBack, record
from toolwright.runtime.model.answer import (
    EMPTY,
    assistant_message,
    calls_of,
    correction_message,
    corrections,
    is_asked_again,
    paying,
    step_row,
    total_cost,
)
from toolwright.runtime.runs.ends import RunEnds, read_outside_calls
from toolwright.runtime.runs.loop import limit_end
from toolwright.runtime.runs.outage import end_outage, has_own_message
from toolwright.runtime.state.facts import injected_message
from toolwright.wire.event import step_event

log = logger("toolwright.runtime")

MAX_SHOWN = 500  # maximum characters of an answer that its error quotes
ENDED = AbandonedCallResults(
    code="interrupted",
    what="The call that made this one ended",
    running="The call that made this one ended before it; its effect is unknown.",
)


class Outcomes:
    """Builds the units of a run's steps."""

    def __init__(
        self,
        planner: CallPlanner,
        executor: CallExecutor,
        settler: CallSettler,
        nested: Nested,
        ends: RunEnds,
    ) -> None:
        self._planner = planner
        self._executor = executor
        self._settler = settler
        self._nested = nested
        self._ends = ends
        self._logged: set[str] = set()  # ids of agents whose sequential reads were logged

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def answer(
        self,
        context: RunContext,
        before: Changes,
        response: ModelResponse,
        formed: FormedAnswer | None = None,
        cut: CutReason | None = None,
        *,
        is_sent_back: bool = False,
    ) -> Next:
        """Build the unit of the model's answer and the start of its first call; `before` are the messages read."""
        changes = before.copy() if before.messages or before.effects else Changes()
        frame, run, at = context.frame, context.run, context.clock.now()
        number = frame.step(run)
        calls = calls_of(context, response, number, at) if response.calls else []
        seq = context.next_seq(changes)
        message = assistant_message(context, response, calls, number, seq, at, is_sent_back=is_sent_back)
        context.add_message(changes, message)
        if run.error is not None or context.thread.faults:
            end_outage(context, changes)
        if frame.texts:
            changes.effects += (KeepTexts(texts=frame.texts),)
        run = paying(run, response)
        if frame.call is None:
            changes.step = step_row(context, response, number, at)
            output = (response.text or run.output) if formed is None else formed.output
            run = changed(run, step_count=number, output=output)
        if cut is not None:
            return self._cut(context, changes, calls, run, response, cut)
        if calls:
            return self.calls_made(context, changes, calls, run, response.usage)
        if frame.call is not None:
            return Next(kind=Answer, changes=changes, run=run)
        changes.events.append(step_event("step.done", number, response.usage))
        reason: StopReason | None = None
        if formed is None:
            run = changed(run, output=response.text)
        if formed is None or formed.over:
            run, reason = after_text(context.active, run)
        end = limit_end(context, run) if reason is None else End("completed", reason)
        return Next(kind=Answer, changes=changes, run=run, ends_step=True, end=end)

    def _cut(
        self,
        context: RunContext,
        changes: Changes,
        calls: Sequence[Call],
        run: Run,
        response: ModelResponse,
        cut: CutReason,
    ) -> Next:
        """End the step of an answer that is not whole: the model is asked again, or the run ends with the reason.

        None of its calls is executed. Half an answer in a declared form is no output.
        """
        for call in calls:
            changes.calls[call.id] = call
            self._settler.settle(context, changes, call, call_not_executed(cut))
        frame, form = context.frame, context.active.form
        is_asked = True
        if frame.call is None:
            is_output = form is None or (cut == "refusal" and not isinstance(form, ComposedForm))
            run = changed(run, output=response.text if is_output else context.run.output)
            changes.events.append(step_event("step.done", run.step_count, response.usage, cut))
            is_asked = is_asked_again(frame.messages, run.id, response) and limit_end(context, run) is None
        if is_asked and cut == "empty":
            seq = context.next_seq(changes)
            context.add_message(changes, correction_message(context, EMPTY, frame.step(run), seq))
        end = None if is_asked else End("completed", cut)
        return Next(kind=Answer, changes=changes, run=run, ends_step=frame.call is None, end=end)

    def correction(
        self, context: RunContext, before: Changes, response: ModelResponse, fault: InvalidAnswer | SentBack
    ) -> Next:
        """Build the unit of a rejected answer: errors for the model, or the end of the conversation after too many.

        The answer breaks its schema, or a hook has sent it back.
        """
        frame = context.frame
        answer, formed = changed(response, calls=()), FormedAnswer(response=response)
        following = self.answer(context, before, answer, formed, is_sent_back=isinstance(fault, SentBack))
        if corrections(frame.messages, context.run.id) >= MAX_CORRECTIONS:
            times = f"{MAX_CORRECTIONS + 1} times in a row"
            if isinstance(fault, SentBack):
                code = HookFailed.code
                error = f"A hook has sent the model's answer back {times}: {brief(fault.reason)}"
            else:
                code = OUTPUT_FAULT
                error = f"The model's answer broke its schema {times}: {brief(str(fault))}"
            error = f"{sentence(error)} The last answer: {brief(response.text, MAX_SHOWN)}"
            return changed(following, end=End("failed", error=error, error_code=code))
        text = fault.reason if isinstance(fault, SentBack) else correction(fault)
        changes = following.changes
        seq = context.next_seq(changes)
        context.add_message(changes, correction_message(context, text, frame.step(context.run), seq))
        return following

    def rejected(
        self,
        context: RunContext,
        before: Changes,
        messages: Sequence[Message],
        reason: str,
        rows: Sequence[HookVerdict],
    ) -> Next:
        """Build the unit of a run whose messages a hook has rejected: they are never sent to a model (D12).

        Another message that joins the run in the meantime keeps it running.
        """
        changes, ids = before.copy(), {each.id for each in messages}
        record(changes, rows)
        changes.messages = [changed(one, kept=False) if one.id in ids else one for one in changes.messages]
        changes.dropped = tuple(
            [one.seq for one in context.root.messages if one.id in ids and one.seq is not None]
        )
        answer = Message(
            id=context.new_id("msg"),
            role="assistant",
            content=reason,
            seq=context.next_seq(changes),
            run_id=context.run.id,
            step=context.run.step_count,
            side=context.side,
            kept=False,
            created_at=context.clock.now(),
        )
        context.add_message(changes, answer)
        run = changed(context.run, output=reason)
        return Next(kind=Result, changes=changes, run=run, end=End("completed", "rejected"))

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def calls_made(
        self,
        context: RunContext,
        changes: Changes,
        calls: Sequence[Call],
        run: Run,
        usage: Usage | None = None,
    ) -> Next:
        """Build the unit of new calls, with the first one that needs an executor started; `usage` is of the answer."""
        for call in calls:
            changes.calls[call.id] = call
        if len(calls) > 1 and log.isEnabledFor(logging.DEBUG):
            self._log_reads(context, calls)
        self._planner.begin(context, calls, changes)
        if len(changes.messages) == 1 or _unanswered(calls, changes):  # the first message is the answer
            return Next(kind=Answer, changes=changes, run=run)
        if usage is not None and context.frame.call is None:
            changes.events.append(step_event("step.done", run.step_count, usage))
        return self._after_calls(context, Answer, changes, run)

    def _log_reads(self, context: RunContext, calls: Sequence[Call]) -> None:
        """Log once per agent that its read-only calls run sequentially."""
        active = context.active
        reads = sum(can_run_concurrently(active.by_name.get(call.name)) for call in calls)
        is_sequential = active.parallel == 1 and context.values is None
        if reads > 1 and is_sequential and active.agent_id not in self._logged:
            self._logged.add(active.agent_id)
            log.debug(
                "The agent %r made %d read-only calls in one answer, which run one after another. With parallel=8 they "
                "would run at once.",
                active.agent.name,
                reads,
            )

    async def result(self, context: RunContext, call: Call, ran: HandlerOutcome, outcome: Outcome) -> Next:
        """Build the unit of an executed call's result, with the handler's writes and the consequences."""
        kept, changes = await self._executor.keep(context, ran, call, outcome)
        if call.attempts > 1 or context.nested:
            await self.close_unfinished_below(context, changes, call)
        execution, run = ran.state.execution, context.run
        if run.queued:  # calls that the conversation of a prompt tool leaves are never made
            run = changed(run, queued=tuple([each for each in run.queued if not _is_below(each, call.id)]))
        is_made_by_handler = context.frame.holder is not None  # the handler adopts both after the commit
        if execution.queued and not is_made_by_handler:
            queued = [changed(each, within=context.frame.id) for each in execution.queued]
            run = changed(run, queued=(*run.queued, *queued))
        if execution.usage is not None and not is_made_by_handler:
            cost = total_cost(run.cost, execution.cost)
            run = changed(run, usage=run.usage + execution.usage, cost=cost)
        if isinstance(kept, Pending):
            self._settler.wait(context, changes, call, kept)
            if kept.wait is not None:
                self._planner.begin(context, context.frame.unanswered(), changes)
                return Next(kind=Result, changes=changes, run=run)
        else:
            self._settler.settle(context, changes, call, kept)
            for each in changes.injected:
                context.add_message(changes, injected_message(context, each, context.next_seq(changes)))
        is_skipped_call = run.calls_only and execution.skipped is not None
        if context.holder is None and execution.ends and not is_skipped_call:
            return await self._stopped(context, changes, execution)
        return self.with_next(context, changes, run)

    def call_made(self, context: RunContext, call: Call) -> Next:
        """Build the unit of a call that a handler makes, with its first move."""
        changes = Changes()
        self._planner.begin(context, [call], changes)
        moved = [each.after for each in changes.call_changes]
        changes.nested, changes.call_changes = (*(moved or [call]),), []
        return Next(kind=Result, changes=changes, run=context.run)

    async def delivered(self, context: RunContext, call: Call, checked: CheckedResult | None = None) -> Next:
        """Build the unit that delivers the result of a call settled elsewhere, with its consequences.

        `checked` is the result with the verdicts of hooks, or None without hooks.
        """
        changes = Changes()
        call = with_result(changes, call, checked)
        self._settler.deliver(context, changes, call, await self._settler.bounded(context, changes, call))
        if checked is not None and checked.failed is not None:
            return self._failed(context, changes, checked.failed)
        return self.with_next(context, changes, context.run)

    def handed_over(self, context: RunContext, events: Sequence[InboxEvent]) -> Next:
        """Build the unit that rejects external calls addressed to an agent that has handed the thread over."""
        changes = Changes()
        self._ends.decline(context, changes, events, "The thread was handed over to another agent")
        return Next(kind=Result, changes=changes, run=context.run)

    def invalid(self, context: RunContext, events: Sequence[InboxEvent]) -> Next:
        """Build the unit that rejects external calls whose arguments are not valid JSON."""
        changes = Changes()
        for call, event in zip(read_outside_calls(context, changes, events), events, strict=True):
            error = f"Invalid arguments: {event.content[FAULT]}"
            self._settler.settle(
                context, changes, call, ToolResult.fail(error, error_code="invalid_arguments")
            )
        return Next(kind=Result, changes=changes, run=context.run)

    def with_next(self, context: RunContext, changes: Changes, run: Run) -> Next:
        """Add the consequences of a result: the next call is started, or the step ends."""
        frame = context.frame
        is_open = bool(frame.open.keys() - map(CALL_ID, changes.messages))
        if is_open:
            rest = _unanswered(frame.open.values(), changes)
            self._planner.begin(context, rest, changes)
            is_open = bool(_unanswered(rest, changes))
        if is_open or frame.call is not None:
            return Next(kind=Result, changes=changes, run=run)
        changes.events.append(step_event("step.done", run.step_count, context.step_usage))
        return self._after_calls(context, Result, changes, run)

    def _after_calls(
        self, context: RunContext, kind: Callable[..., Advance], changes: Changes, run: Run
    ) -> Next:
        """End the step, all calls of which have results. That can end a turn, or the run."""
        if context.frame.call is not None:
            return Next(kind=kind, changes=changes, run=run)
        turn, reason, active = run.turn, None, context.active
        stops = active.stops
        if not run.calls_only:  # only calls of the model end a turn
            if stops.stop_tool or stops.session_stop or stops.session_fail:
                run, reason = after_calls(active, run, _calls_of_step(context, changes))
            if reason is None and run.output is not None and isinstance(active.form, ComposedForm):
                reason = "end_turn"  # the answer that made the calls also provided the output
        if run.queued and (reason is not None or run.turn != turn):
            run = changed(run, queued=())  # they were queued for the next step of this turn
        end = limit_end(context, run) if reason is None else End("completed", reason)
        if end is not None and reason is None and (run.queued_in(None) or _handed_over(changes)):
            end = None  # the agent that takes over has its own limits
        return Next(kind=kind, changes=changes, run=run, ends_step=True, end=end)

    async def _stopped(self, context: RunContext, changes: Changes, execution: RunExecution) -> Next:
        """Build the unit of a handler that has ended the run or its side's turn: no later call of the step starts."""
        if execution.failed is not None:
            return self._failed(context, changes, execution.failed)
        changes.events.append(step_event("step.done", context.run.step_count, context.step_usage))
        if execution.skipped is not None:
            end = End("skipped", reason=execution.skipped.reason)
            return _forced_end(context.run, changes, end)
        if execution.stopped:
            end = End("completed", "session_stop", terminated=execution.terminated)
            return _forced_end(context.run, changes, end)
        assert context.root.active is not None, "a handler is executed for an active agent"
        run, reason = side_over(context.root.active, changed(context.run, queued=()), "end_turn")
        if reason is not None:
            return _forced_end(context.run, changes, End("completed", reason))
        await self._ends.end_open_calls(context, changes, End("completed"))
        end = limit_end(context, run)
        return Next(kind=Result, changes=changes, run=run, ends_step=True, end=end)

    def _failed(self, context: RunContext, changes: Changes, failed: HookFailed) -> Next:
        """Build the unit of a result whose hook has failed, which ends the run."""
        changes.events.append(step_event("step.done", context.run.step_count, context.step_usage))
        end = End("failed", error=failed.message, error_code=failed.code)
        return _forced_end(context.run, changes, end)

    async def close_unfinished_below(self, context: RunContext, changes: Changes, call: Call) -> None:
        """Close the unfinished nested calls of a call. Nested calls started in this process need no read."""
        is_open = any(each.status in ("created", "running", "waiting") for each in context.nested.values())
        if call.attempts > 1 or is_open:
            await self.close_interrupted_below(context, changes, call)

    async def close_interrupted_below(self, context: RunContext, changes: Changes, call: Call) -> None:
        """Close the nested calls that another process had started."""
        for each in await self._nested.unfinished_below(context, call):
            self._settler.close(context, changes, each, ENDED)


def _is_below(queued: QueuedCall, call_id: str) -> bool:
    """Return whether the call was queued in the conversation of that call, or of a nested call."""
    within = queued.within
    return within is not None and (within == call_id or within.startswith(f"{call_id}."))


def _unanswered(calls: Iterable[Call], changes: Changes) -> list[Call]:
    """Return the calls that these changes do not answer."""
    answered = set(map(CALL_ID, changes.messages))
    return [call for call in calls if call.id not in answered]


def _forced_end(run: Run, changes: Changes, end: End) -> Next:
    return Next(kind=Result, changes=changes, run=run, end=end, forced=True)


def _handed_over(changes: Changes) -> bool:
    return any(isinstance(each, HandOff) for each in changes.effects)


def _calls_of_step(context: RunContext, changes: Changes) -> list[CallSummary]:
    """Return the calls of the step with their outcomes, including the outcomes of these changes."""
    calls = {call.id: call for call in (*context.root.calls.values(), *changes.calls.values())}
    status = {m.call_id: m.status for m in (*context.root.messages, *changes.messages) if m.role == "tool"}
    return [CallSummary(c.name, c.arguments, status.get(c.id) == "success") for c in calls.values()]


def cut_of(context: RunContext, response: ModelResponse) -> CutReason | None:
    """Return why the answer is not whole, or None.

    An answer to inbox events may be empty, and so may that of a prompt tool which returns no text.
    """
    if response.cut != "empty":
        return response.cut
    call = context.frame.call
    if call is None:
        return "empty" if has_own_message(context) else None
    return "empty" if config_of(context.prepared[call.id].tool).include_text_response else None
