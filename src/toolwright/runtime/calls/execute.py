"""Handlers of calls: executed within their run; their results and writes are prepared for the journal."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.concurrency import Supervision, deadlines_of
from toolwright.core.env.env import EnvChange
from toolwright.core.env.logs import CALL_ID, logger
from toolwright.core.errors import HookFailed, InvalidRequest, NotFound, TooLarge, ToolwrightError
from toolwright.core.files import FileDrafts
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.child_effects import change_call
from toolwright.core.results import Outcome, Pending, ToolResult, attached_text
from toolwright.core.text import BEFORE_CUT, cleaned_before_cut
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.function import ends_at_once
from toolwright.core.tools.pipeline import Executor, PreparedCall, carry_out, limit_of, timed_out
from toolwright.core.tools.tool import Kind, Tool
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame
from toolwright.runtime.env import redacted
from toolwright.runtime.hooks import HookRunner, record
from toolwright.runtime.state.state import HandlerServices, Invoke, RunState
from toolwright.runtime.threads.thread_tree import children_of
from toolwright.wire.result import result_from_json, result_to_json

log = logger("toolwright.tools")

SLOW_CALL = 60.0  # seconds after which a call in progress is logged
MAX_PROLONGED = 10
"""Multiple of its timeout that a call of an MCP server can last while the server reports progress."""
ABORT_GRACE = 5.0  # seconds that a handler which reads the abort signal has before it is cancelled


@dataclass(frozen=True, slots=True)
class HandlerOutcome:
    """The outcome of an executed call, the state that it wrote to, and the verdicts of hooks about its result."""

    outcome: Outcome | None  # None if it was cancelled with its run
    state: RunState
    rows: Sequence[HookVerdict] = ()


@dataclass(frozen=True, slots=True)
class CheckedResult:
    """A result with the verdicts of hooks about it. `failed` is the failure of a hook, which ends the run."""

    result: ToolResult
    rows: Sequence[HookVerdict]
    failed: HookFailed | None = None


class CallExecutor:
    """Executes started calls with `executors`, one per carrier, and provides each with its view of the thread."""

    def __init__(
        self,
        executors: Mapping[Kind, Executor],
        services: HandlerServices,
        hooks: HookRunner,
        abort_grace: float = ABORT_GRACE,
    ) -> None:
        self._executors = executors
        self._services = services
        self._hooks = hooks
        self._abort_grace = abort_grace

    def state(self, context: RunContext, call: Call, invoke: Invoke) -> RunState:
        """Return the view of the thread for the handler of a call that starts no children."""
        return RunState(context, call, self._services, invoke)

    async def carry_out(
        self, context: RunContext, call: Call, prepared: PreparedCall, invoke: Invoke
    ) -> HandlerOutcome:
        """Execute the started call until it ends, times out or is cancelled with its run.

        A cancelled run cancels the handler at once, or after a grace period if the handler has read the abort signal or
        its tool declares one. A handler that does not end then is abandoned; its later writes are refused.
        """
        children: Sequence[Thread] = ()
        if context.may_have_children:
            children = await context.retry_until_available(
                lambda: children_of(self._services.store, context.thread.id)
            )
        state = RunState(context, call, self._services, invoke, children)
        token = CALL_ID.set(call.id)  # a handler that has its own task gets a copy
        hooks = None if context.frame.tools else context.active.hooks
        try:
            if context.trace is None:
                work = self._run(context, prepared, state)
            else:
                work = context.trace.carry_out(call.id, lambda: self._run(context, prepared, state))
            if ends_at_once(self._executors.get(prepared.tool.carrier), prepared.tool):
                ran = HandlerOutcome(await work, state)
            else:
                ran = HandlerOutcome(await self._in_time(context, work, prepared.tool, state), state)
            if hooks is not None and hooks.after_call:
                return await self.with_verdicts(context, call, prepared.tool, ran)
            return ran
        finally:
            CALL_ID.reset(token)

    async def with_verdicts(
        self, context: RunContext, call: Call, tool: Tool | None, ran: HandlerOutcome
    ) -> HandlerOutcome:
        """Return the outcome with the verdicts of hooks. If one fails, it is an error that ends the run."""
        if not isinstance(ran.outcome, ToolResult):
            return ran
        checked = await self._checked(context, call, tool, ran.outcome)
        if checked.failed is not None:
            ran.state.execution.failed = checked.failed
        return HandlerOutcome(checked.result, ran.state, checked.rows)

    async def submitted(self, context: RunContext, call: Call, frame: Frame) -> CheckedResult | None:
        """Return the result of a call settled elsewhere with the verdicts of hooks, or None if none is asked."""
        active = frame.active
        if active is None or active.hooks is None or not active.hooks.after_call or frame.tools:
            return None
        if call.result is None or not is_over(call.status) or call.approval == "asked":
            return None  # a call that was not approved has not started
        tool = active.by_name.get(call.name)
        return await self._checked(context, call, tool, result_from_json(call.result), active)

    async def _checked(
        self,
        context: RunContext,
        call: Call,
        tool: Tool | None,
        result: ToolResult,
        active: ActiveAgent | None = None,
    ) -> CheckedResult:
        try:
            return CheckedResult(*await self._hooks.after_call(context, call, tool, result, active))
        except HookFailed as failed:
            error = ToolResult.fail(failed.message, error_code=failed.code)
            return CheckedResult(error, failed.rows, failed)

    async def _in_time(
        self, context: RunContext, running: Coroutine[Any, Any, Outcome], tool: Tool, state: RunState
    ) -> Outcome | None:
        """Return the outcome, or a timeout error. None if the run is cancelled before the handler ends."""
        seconds = limit_of(tool)
        work = Supervision(running, tool.name, seconds)
        context.abort.within(work, lambda: self._grace(tool, state))
        if tool.kind == "mcp" and seconds is not None:
            state.prolong = partial(work.prolong, seconds, MAX_PROLONGED * seconds)
        loop = asyncio.get_running_loop()
        deadlines, here = deadlines_of(loop), copy_context()
        slow = deadlines.add(loop.time() + SLOW_CALL, lambda: here.run(_report_slow, tool))
        try:
            if await work.end():
                return _with_pauses(work.result(), work.paused_seconds)
            return timed_out(seconds) if seconds is not None and work.cut_off == "time" else None
        finally:
            deadlines.remove(slow)
            context.abort.left(work)
            await state.close()  # also if the handler was abandoned, or cancelled while it closed the state

    def _grace(self, tool: Tool, state: RunState) -> float:
        """Return the seconds between the abort signal and the cancellation of the tool's handler."""
        if tool.grace is not None:
            return tool.grace
        return self._abort_grace if state.execution.reads_abort else 0.0

    async def _run(self, context: RunContext, prepared: PreparedCall, state: RunState) -> Outcome:
        """Return the handler's outcome, without secrets."""
        token = BEFORE_CUT.set(context.redact)
        try:
            outcome = await carry_out(self._executors, prepared, state)
        finally:
            BEFORE_CUT.reset(token)
            await state.close()
        redactor = context.redactor
        if redactor.secrets and isinstance(outcome, ToolResult) and not state.is_builtin:
            return await redacted(redactor, outcome)
        return outcome

    async def keep(
        self, context: RunContext, ran: HandlerOutcome, call: Call, outcome: Outcome
    ) -> tuple[Outcome, Changes]:
        """Return an outcome as it can be recorded, with its files stored and its text cut, and the call's writes.

        Either all files of a result are stored or none. The handler's writes are kept also if it fails.
        """
        state = ran.state
        if context.thread.cut and not context.has_read_all:
            try:
                await state.check()
            except NotFound as error:
                outcome = ToolResult.fail(error.message, error_code=error.code)
        changes, drafted, has_effects = state.written()
        if ran.rows:
            record(changes, ran.rows)
        if drafted is not None:
            await context.retry_until_available(drafted.rename_existing)
        if has_effects:
            try:
                changes.effects += tuple(await state.effects())
            except ToolwrightError as error:  # a precondition of the tool's write no longer holds
                outcome = ToolResult.fail(error.message, error_code=error.code)
                changes.env = _without_births(changes.env, context.thread.id)
        result = outcome if isinstance(outcome, ToolResult) else ToolResult.ok()
        if drafted is None and not result.attachments and not self._services.files.too_long(result):
            return outcome, changes
        limited = await self._stored(context, changes, call, result, drafted or FileDrafts(context.files))
        return limited if isinstance(outcome, ToolResult) else outcome, changes

    async def _stored(
        self, context: RunContext, changes: Changes, call: Call, result: ToolResult, written: FileDrafts
    ) -> ToolResult:
        """Return the result within the limit of texts, and add its files to those that the handler has written."""
        files, thread_id, drafts = self._services.files, context.thread.id, written.copy()
        try:
            with cleaned_before_cut(context.redact):
                refs = await context.retry_until_available(
                    lambda: files.attach(thread_id, drafts, result.attachments)
                )
            is_text = result.result == attached_text(result.attachments)
            value = attached_text(refs) if is_text else result.result
            result = changed(result, result=value, attachments=refs)
        except (InvalidRequest, TooLarge, NotFound) as error:
            drafts = written
            why = context.redact(error.message)
            result = ToolResult.fail(f"The tool's files cannot be stored. {why}", error_code="attachments")
        limited = await context.retry_until_available(
            lambda: files.within_limit(thread_id, drafts, result, call.name)
        )
        changes.files = drafts.changes
        if context.values is not None and limited is not result:
            changes.whole = {call.id: result.result}
        return limited


def with_result(changes: Changes, call: Call, checked: CheckedResult | None) -> Call:
    """Return the call with its result as hooks have changed it, which is recorded in the changes."""
    if checked is None or not checked.rows:
        return call
    record(changes, checked.rows)
    call = changed(call, result=result_to_json(checked.result))
    changes.effects += (change_call(call, "result"),)
    return call


def _without_births(env: Sequence[EnvChange], thread_id: str) -> tuple[EnvChange, ...]:
    """Return the changes of variables without those for children that do not start."""
    return tuple([each for each in env if each.owner == thread_id or each.row is None])


def _with_pauses(outcome: Outcome, seconds: float) -> Outcome:
    """Return the outcome of a call whose time limit was paused for these seconds: a task does not count them either."""
    if not seconds or not isinstance(outcome, Pending) or outcome.task is None or outcome.wait is None:
        return outcome
    return changed(outcome, wait=outcome.wait + seconds)


def _report_slow(tool: Tool) -> None:
    """Log a call that has been in progress for `SLOW_CALL` seconds, with the ids of its run and call."""
    limit = limit_of(tool)
    until = "has no time limit" if limit is None else f"is cancelled after {limit:g} s"
    log.warning("A call of the tool %r has been in progress for %.0f s. It %s.", tool.name, SLOW_CALL, until)
