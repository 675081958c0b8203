"""Actions of a run: call the model, execute calls, wait for results; each commits its outcome."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from toolwright.core.concurrency import in_thread_if_large, is_cancelled
from toolwright.core.env.env import EnvVar
from toolwright.core.env.logs import logger
from toolwright.core.errors import (
    ContextTooLong,
    DefinitionError,
    HookFailed,
    InvalidRequest,
    MissingExtra,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    ServerFailed,
    StoreError,
    ToolwrightError,
    Unwritable,
)
from toolwright.core.journal.child_effects import Activated
from toolwright.core.journal.units import Finish, Result
from toolwright.core.limits import MAX_CALLS
from toolwright.core.model import ModelResponse, cut_answer
from toolwright.core.results import Outcome, ToolResult
from toolwright.core.schemas.output import (
    OUTPUT_FAULT,
    FormedAnswer,
    InvalidAnswer,
    ValidatorFailed,
    validate_answer,
)
from toolwright.core.text import sentence
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import READ_RESULT
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import QueuedCall, Run
from toolwright.core.tools.pipeline import PreparedCall, prepare
from toolwright.core.value import changed
from toolwright.runtime.agents.speakers import Speakers
from toolwright.runtime.calls.decide import CallDecider
from toolwright.runtime.calls.execute import CallExecutor, HandlerOutcome
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.plan import CallPlanner
from toolwright.runtime.calls.settle import INTERRUPTED, CallSettler
from toolwright.runtime.calls.variables import missing_for, missing_variables, park_for, variables_of
from toolwright.runtime.calls.wait import CallWaiter
from toolwright.runtime.children.step_tools import StepTools
from toolwright.runtime.context.commit import Changes, EffectRefused, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame
from toolwright.runtime.env import Environment
from toolwright.runtime.hooks import SentBack
from toolwright.runtime.model.answer import (
    as_cut,
    is_asked_again,
    outside_calls,
    paying,
    queued_message,
    requested_call,
)
from toolwright.runtime.model.ask import ModelAnswers, ModelRaised
from toolwright.runtime.runs.dynamic import DynamicValues
from toolwright.runtime.runs.ends import RunEnds
from toolwright.runtime.runs.hook_actions import HookActions
from toolwright.runtime.runs.loop import (
    Action,
    AnswerMessages,
    AskModel,
    CallImmediately,
    CheckVariables,
    DeliverResult,
    EndRun,
    EnterPrompt,
    ExecuteCall,
    ExecuteConcurrently,
    LeavePrompt,
    MakeCalls,
    RecoverCalls,
    SelectAgent,
    StartCall,
    TakeOutsideCalls,
    WaitForCalls,
)
from toolwright.runtime.runs.outage import has_own_message, lasts_too_long, outage
from toolwright.runtime.runs.outcomes import Outcomes, cut_of
from toolwright.runtime.runs.reading import is_unread
from toolwright.runtime.state.state import Invoke
from toolwright.runtime.threads.inbox import cleaned_texts, own_message
from toolwright.runtime.threads.thread_tree import child_id_of

log = logger("toolwright.runtime")

CANCELLED = ToolResult.fail("The run was cancelled.", error_code="cancelled")
MODEL_FAULTS = (ModelError, StoreError, DefinitionError, MissingExtra)
"""Errors caused by the model or by the way it was named, and not by the content of the request (D21)."""


Do: TypeAlias = Callable[[RunContext, Action], Awaitable[None]]
"""Executes an action."""


class Actions:
    """Executes the actions of runs, whose state is in the `RunContext` and in the journal.

    `handler_calls` returns the function that makes the calls of handlers, given the one that executes an action.
    """

    def __init__(
        self,
        planner: CallPlanner,
        executor: CallExecutor,
        settler: CallSettler,
        waiter: CallWaiter,
        model_answers: ModelAnswers,
        nested: Nested,
        ends: RunEnds,
        outcomes: Outcomes,
        speakers: Speakers,
        step_tools: StepTools,
        environment: Environment,
        max_outage: timedelta,
        handler_calls: Callable[[Do], Invoke],
        decider: CallDecider,
        hooks: HookActions,
        dynamic: DynamicValues,
    ) -> None:
        self._decider = decider
        self._hooks = hooks
        self._dynamic = dynamic
        self._planner = planner
        self._executor = executor
        self._settler = settler
        self._waiter = waiter
        self._model_answers = model_answers
        self._nested = nested
        self._ends = ends
        self._outcomes = outcomes
        self._speakers = speakers
        self._step_tools = step_tools
        self._environment = environment
        self._max_outage = max_outage
        self._invoke = handler_calls(self.do)

    async def do(self, context: RunContext, action: Action) -> None:
        """Execute the action and commit its outcome."""
        match action:
            case AskModel():
                await self._ask(context)
            case ExecuteCall():
                await self._execute(context, action.call, action.prepared)
            case ExecuteConcurrently():
                await self._execute_concurrently(context)
            case WaitForCalls():
                timed_out = await self._waiter.wait(context, action.calls)
                if timed_out is not None:
                    await self._settle(context, timed_out)
            case StartCall():
                await self._start(context, action.call)
            case DeliverResult():
                checked = await self._executor.submitted(context, action.call, context.frame)
                await context.commit(partial(self._outcomes.delivered, context, action.call, checked))
            case RecoverCalls():
                await self._recover(context, action.calls)
            case EnterPrompt():
                await self._enter(context, action.call, action.prepared)
            case LeavePrompt():
                await self._leave(context, action.frame, action.error)
            case SelectAgent():
                await self._select_agent(context)
            case CheckVariables():
                missing = await missing_variables(context)
                context.variables_checked = True
                if missing:
                    await park_for(context, missing)
            case MakeCalls():
                rest = tuple([each for each in context.run.queued if each not in action.queued])
                run = changed(context.run, queued=rest)
                await self._make_calls(context, Changes(), run, action.queued)
            case CallImmediately():
                await self._call_immediately(context)
            case TakeOutsideCalls():
                await self._record_outside_calls(context, action)
            case AnswerMessages():
                context.run = changed(context.run, calls_only=False)
            case EndRun(forced=True):
                await self._ends.end(context, Finish, Changes(), action.end)
            case EndRun():
                await context.commit(partial(_ended, context, action.end))

    # ── the active agent ────────────────────────────────────────────────────────────────────────────────────────

    async def _select_agent(self, context: RunContext) -> None:
        """Select the active agent and side, with the tools of the next step; the run fails if the agent is unknown."""
        base, answering = context.base, _answering(context)
        if base is None or base.agent_id != answering:
            thread = changed(context.thread, active_agent=answering)
            active = await context.retry_until_available(
                lambda: self._speakers.agent_for(thread, context.run)
            )
            if isinstance(active, str):
                await self._ends.fail(context, active)
                return
            base = active
        if base.has_schema_tools:
            await context.load_values()
        base = base.sides.get(context.run.side, base)
        active = await self._step_tools.offered(context, base)
        if active.is_dynamic and not await self._dynamic.select(context, base, active):
            return
        if not active.is_dynamic:
            context.set_speaker(base, active)
        context.selected = True
        if is_unread(context) and not await self._hooks.read_inbox(context):
            return
        if base.hooks is not None and base.hooks.before_run:
            await self._hooks.admit_first(context)

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────

    async def _ask(self, context: RunContext) -> None:
        """Call the model of the current conversation, and commit its answer."""
        frame, changes = context.frame, Changes()
        if context.inbox and frame.call is None:
            joined = [*context.joined()]
            _read_joined(context, changes, joined, await cleaned_texts(joined))
            hooks = context.active.hooks
            is_asked = joined and hooks is not None and bool(hooks.before_run)
            if is_asked and not await self._hooks.admit(context, changes, changes.messages):
                return
        context.call_ids = {}
        if context.active.is_dynamic and not await self._dynamic.prepare(context):
            return
        try:
            response = await self._model_answers.ask(context, changes)
        except HookFailed as failed:
            await self._hooks.fail(context, failed)
            return
        except (ToolwrightError, ModelRaised) as error:
            if isinstance(error, ModelRaised):
                log.exception("The model of the prompt %r failed.", context.active.prompt.name)
            if frame.call is None:
                await self._failed(context, changes, error)
            else:
                await self._failed_within(context, error)
            return
        if response is None:
            return
        if isinstance(response, SentBack):
            error = await self._hooks.send_back(context, changes, response)
            if frame.texts:
                self._model_answers.windows.records.stored(frame)
            if error is not None:
                await self._refuse(context, error, HookFailed.code)
            return
        formed, cut = None, cut_of(context, response)
        if cut is not None:
            response = as_cut(response, cut)
            if frame.call is not None and not is_asked_again(frame.messages, context.run.id, response):
                context.run = paying(context.run, response)
                await self._leave(context, frame, cut_answer(cut, response.text))
                return
        elif context.active.form is not None:
            formed = await self._formed(context, changes, response)
            if formed is None:
                return
            response = formed.response
        if len(response.calls) > MAX_CALLS:
            error = f"The model asked for {len(response.calls)} calls in one answer. At most {MAX_CALLS} are made."
            await self._refuse(context, error, ModelError.code)
            return
        answer = partial(self._outcomes.answer, context, changes, response, formed, cut)
        if await context.commit(answer) == "done" and frame.texts:
            self._model_answers.windows.records.stored(frame)

    async def _refuse(self, context: RunContext, error: str, code: str) -> None:
        """End the current conversation with an error: the run fails, or the caller of a prompt tool reads it.

        A provider's error can repeat what it was sent, so that it is redacted.
        """
        if context.frame.call is None:
            await self._ends.fail(context, error, code)
        else:
            result = ToolResult.fail(context.redactor.text(error), error_code=code)
            await self._leave(context, context.frame, result)

    async def _failed(
        self, context: RunContext, changes: Changes, error: ToolwrightError | ModelRaised
    ) -> None:
        """End the run whose model has not answered, or suspend it until the model is called again."""
        if isinstance(error, ContextTooLong) and changes.messages:
            # A message has just joined the run: once it is committed, it can be left out.
            await context.write(Result, changes, context.run)
        elif isinstance(error, MODEL_FAULTS) and not isinstance(error, ContextTooLong):
            if context.seconds_left() <= 0:
                await self._ends.end(context, Finish, Changes(), End("completed", "max_seconds"))
            else:
                await self._model_failed(context, error)
        else:
            await self._refuse(context, *_words(error))

    async def _failed_within(self, context: RunContext, error: ToolwrightError | ModelRaised) -> None:
        """Return the failure of a prompt tool's model to the caller, or suspend the run until the model is available.

        A handler that waits for the answer cannot be suspended, so it gets the error.
        """
        if isinstance(error, ModelUnavailable):
            waiting = outage(context, error)
            if context.holder is None and not lasts_too_long(waiting, self._max_outage):
                await self._ends.wait(context, waiting)
                return
            # an outage of another model starts again
            context.run = changed(context.run, error=None, waiting=None)
        await self._refuse(context, *_words(error))

    async def _formed(
        self, context: RunContext, changes: Changes, response: ModelResponse
    ) -> FormedAnswer | None:
        """Return the answer parsed in its agent's form. If it is invalid, commit the correction and return None."""
        form = context.active.form
        assert form is not None, "checked by the caller"
        try:
            return await in_thread_if_large(response.text, validate_answer, form, response)
        except InvalidAnswer as fault:
            correction = partial(self._outcomes.correction, context, changes, response, fault)
            await context.commit(correction)
        except ValidatorFailed as error:
            log.exception("The answer of the agent %r could not be validated.", context.active.agent.name)
            await self._ends.fail(
                context, sentence(f"The answer could not be validated: {error}"), OUTPUT_FAULT
            )
        except ServerFailed as error:
            await self._ends.fail(context, error.message, error.code)
        return None

    async def _model_failed(self, context: RunContext, error: ToolwrightError) -> None:
        """Wait until the model is available, with pauses (D21): at most `max_outage` for the thread's own messages.

        A model that refuses such a message is not called again. A model that refuses inbox events is retried as long,
        because its configuration can be corrected; then the run fails, and the failure counts against the events, which
        are not waited for again.
        """
        waiting = outage(context, error)
        is_too_long = lasts_too_long(waiting, self._max_outage)
        was_tried = any(event.attempts for event in context.reading.values())
        if has_own_message(context) and (is_too_long or not isinstance(error, ModelUnavailable)):
            end = End("failed", error=error.message, error_code=error.code, fault="model")
            await self._ends.end(context, Finish, Changes(), end)
        elif isinstance(error, ModelRefused) and error.of_content and (is_too_long or was_tried):
            await self._ends.fail(context, error.message, error.code)
        else:
            await self._ends.wait(context, waiting)

    # ── calls that no model requests ────────────────────────────────────────────────────────────────────────────

    async def _call_immediately(self, context: RunContext) -> None:
        """Make the immediate calls of a newly active prompt (S0 §5), once per activation, even if there are none."""
        try:
            immediate_calls = await self._step_tools.immediate(context)
        except InvalidRequest as error:
            end = End("failed", error=error.message, error_code=error.code)
            await self._ends.end(context, Finish, Changes(), end)
            return
        sides = (*context.thread.activated, context.run.side)
        changes = Changes(effects=(Activated(thread_id=context.thread.id, sides=sides),))
        if not immediate_calls:
            await context.write(Result, changes, context.run)
            return
        values = [each.values for each in immediate_calls]
        await self._make_calls(context, changes, context.run, [each.call for each in immediate_calls], values)

    async def _make_calls(
        self,
        context: RunContext,
        changes: Changes,
        run: Run,
        queued: Sequence[QueuedCall],
        values: Sequence[Mapping[str, EnvVar]] = (),
    ) -> None:
        """Record calls that no model has requested as calls of the active agent, and start them.

        `values` are the variables of their children.
        """
        calls = [
            requested_call(context, each, number)
            for number, each in enumerate(queued, context.frame.next_position)
        ]
        changes.env = tuple(
            [
                self._environment.change(child_id_of(call.id), name, var, context.clock.now())
                for call, own in zip(calls, values, strict=False)
                if own and _can_begin(context, call)
                for name, var in own.items()
            ]
        )
        await self._commit_calls(context, changes, calls, run)

    async def _record_outside_calls(self, context: RunContext, action: TakeOutsideCalls) -> None:
        """Record external calls as calls of the active agent, and start or reject them."""
        match action.refused:
            case "handed_over":
                await context.commit(partial(self._outcomes.handed_over, context, action.events))
                return
            case "invalid":
                await context.commit(partial(self._outcomes.invalid, context, action.events))
                return
            case None:
                pass
        run = context.run
        if run.calls_only:
            run = changed(run, step_count=run.step_count + 1)
        reads = any(event.content["name"] == READ_RESULT for event in action.events)
        if reads and context.base is not None:
            context.set_speaker(context.base, self._step_tools.with_reader(context.active, False))
        calls = outside_calls(context, action.events, run.step_count)
        read = tuple([event.event_id for event in action.events])
        await self._commit_calls(context, Changes(read=read), calls, run)

    async def _commit_calls(self, context: RunContext, changes: Changes, calls: list[Call], run: Run) -> None:
        def made() -> Next:
            all_changes = changes.copy()
            context.add_message(all_changes, queued_message(context, calls, context.next_seq(all_changes)))
            return self._outcomes.calls_made(context, all_changes, calls, run)

        await context.commit(made)

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _start(self, context: RunContext, call: Call) -> None:
        """Start the next call. It waits for the variables of its tool, then for its approval."""
        tool = (context.frame.tools or context.active.by_name).get(call.name)
        if tool is not None and variables_of(context, tool):
            await context.retry_until_available(context.reload_env)
            missing = missing_for(context, tool)
            if missing and context.holder is None and not context.answers_nothing:
                await park_for(context, missing)
                return
        for each in self._hooks.to_decide(context, call):
            await self._decider.decide(context, each)
        await self._settle(context, Changes())

    async def _execute(self, context: RunContext, call: Call, prepared: PreparedCall) -> None:
        """Execute a call, and commit its result."""
        del context.prepared[call.id]  # from here on its effect can exist, whatever ends this
        ran = await self._executor.carry_out(context, call, prepared, self._invoke)
        if ran.outcome is not None:
            await self.commit_outcome(context, call, ran, ran.outcome)
        elif context.frame.holder is not None:
            await self.commit_outcome(context, call, ran, CANCELLED)
        elif context.holder is None:  # otherwise the handler that waits for it is cancelled too
            await self._ends.end(context, Finish, Changes(), End("cancelled"))

    async def _execute_concurrently(self, context: RunContext) -> None:
        """Execute the started calls concurrently, and record their results in the order of the calls.

        Each recorded result lets another call start. After a call that was cancelled with its run, no more results are
        recorded: in a sequential run the following calls would not have started.
        """
        frame, running = context.frame, dict[str, asyncio.Task[HandlerOutcome]]()
        try:
            while True:
                for call in () if context.stopping or context.abort.aborted else frame.unanswered():
                    prepared = context.prepared.get(call.id)
                    if call.status == "running" and prepared is not None:
                        del context.prepared[call.id]
                        work = self._executor.carry_out(context, call, prepared, self._invoke)
                        running[call.id] = asyncio.create_task(work, name=f"call {call.id}")
                first = next((call for call in frame.unanswered() if call.id in running), None)
                if first is None:
                    return
                ran = await running.pop(first.id)
                if ran.outcome is None:
                    if running:
                        await asyncio.wait(running.values())  # each has its own timeout
                    return
                async with context.turn():
                    await self.commit_outcome(context, first, ran, ran.outcome)
                if is_cancelled():  # the call has completed nevertheless: its result is recorded
                    return
        finally:
            await _cancel_all(running.values())

    async def _recover(self, context: RunContext, calls: Sequence[Call]) -> None:
        """Restart calls interrupted by a crash if they can be repeated, or record that their effect is unknown."""
        changes = Changes(is_restart=True)
        for call in calls:
            if not self._planner.restart(context, changes, call):
                changes.is_restart = False
                await self._outcomes.close_interrupted_below(context, changes, call)
                unknown = ToolResult.fail(INTERRUPTED, error_code="interrupted")
                self._settler.settle(context, changes, call, unknown)
        if changes.messages:
            await self._settle(context, changes)
        else:
            await context.write(Result, changes, context.run)

    async def _enter(self, context: RunContext, call: Call, prepared: PreparedCall) -> None:
        """Start the conversation of a prompt tool, or resume it."""
        conversation = await self._nested.frame(context, call, prepared)
        if isinstance(conversation, Frame):
            is_resumed = bool(conversation.open)  # within a step
            if not is_resumed or await self._dynamic.resume(context, conversation):
                context.enter_frame(conversation)
        else:
            await self._return(context, call, conversation)

    async def _leave(self, context: RunContext, frame: Frame, error: ToolResult | None) -> None:
        """End the conversation of a prompt tool: its answer, or an error, is the result of its call."""
        assert frame.call is not None, "the thread's own conversation is never left"
        result = await self._nested.answer(context, frame) if error is None else error
        self._settler.forget(frame.calls)
        context.leave_frames(len(context.frames) - 1)
        await self._return(context, frame.call, result)

    async def _return(self, context: RunContext, call: Call, result: ToolResult) -> None:
        """Commit the result of a prompt tool."""
        prepared = context.prepared.pop(call.id, None)
        ran = HandlerOutcome(result, self._executor.state(context, call, self._invoke))
        hooks = context.active.hooks
        if hooks is not None and hooks.after_call and prepared is not None:
            ran = await self._executor.with_verdicts(context, call, prepared.tool, ran)
        await self.commit_outcome(context, call, ran, result if ran.outcome is None else ran.outcome)

    async def commit_outcome(
        self, context: RunContext, call: Call, ran: HandlerOutcome, outcome: Outcome
    ) -> None:
        """Commit the outcome of a call, or an error in its place if the journal cannot hold it."""
        try:
            await context.commit(partial(self._outcomes.result, context, call, ran, outcome))
        except (Unwritable, EffectRefused) as error:
            changes = Changes()
            self._settler.settle(
                context, changes, call, ToolResult.fail(error.message, error_code=error.code)
            )
            await self._settle(context, changes)
        if context.frame.holder is not None:
            context.frame.holder.adopt(ran.state.execution)
        elif context.holder is not None:
            context.holder.adopt_ends(ran.state.execution)

    async def _settle(self, context: RunContext, changes: Changes) -> None:
        """Commit these changes of calls, together with their consequences."""
        await context.commit(lambda: self._outcomes.with_next(context, changes.copy(), context.run))


def _ended(context: RunContext, end: End) -> Next:
    """Build the unit that ends the run, unless a message joins it in the meantime."""
    return Next(kind=Result, changes=Changes(), run=context.run, end=end)


def _read_joined(
    context: RunContext, changes: Changes, joined: Sequence[InboxEvent], cleaned: Mapping[str, str]
) -> None:
    """Add the messages that joined the run to the changes of the next answer (D22)."""
    step = context.run.step_count + 1
    for event in joined:
        changes.read += (event.event_id,)
        context.add_message(
            changes, own_message(event, context.run, step, context.next_seq(changes), cleaned)
        )


def _words(error: ToolwrightError | ModelRaised) -> tuple[str, str]:
    """Return what the failure of a model is called, and its code."""
    if isinstance(error, ModelRaised):
        return f"The model failed: {error}", ModelError.code
    return error.message, error.code


def _can_begin(context: RunContext, call: Call) -> bool:
    """Return whether the call's arguments let a child start; otherwise no variables are needed."""
    return not isinstance(prepare(context.active.by_name, call.name, call.arguments, call.id), ToolResult)


def _answering(context: RunContext) -> str:
    """Return the agent that answers. Open calls still belong to the agent that made them (S0 §4)."""
    waiting = context.root.unanswered()
    return (waiting[0].agent if waiting else None) or context.thread.answering


async def _cancel_all(tasks: Collection["asyncio.Task[HandlerOutcome]"]) -> None:
    """Cancel these calls and wait until they have ended, even if the caller is cancelled again."""
    for each in tasks:
        each.cancel()
    cancelled: asyncio.CancelledError | None = None
    while left := [each for each in tasks if not each.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    for each in tasks:
        if not each.cancelled():
            each.exception()  # retrieved, because asyncio would log it otherwise
    if cancelled is not None:
        raise cancelled
