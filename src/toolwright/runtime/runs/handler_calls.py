"""Calls that handlers make with `invoke_tool`: recorded as nested calls, and waited for in memory.

Their ids are derived from the handler's call, `<call>.1`, `<call>.2` …, so that they continue after a crash.
"""

from collections.abc import Mapping

from toolwright.core.errors import Unwritable
from toolwright.core.journal.units import Result
from toolwright.core.mcp.questions import HOST_TOOLS
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import QueuedCall
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Tool
from toolwright.runtime.calls.decide import decide
from toolwright.runtime.calls.execute import CallExecutor, HandlerOutcome
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.plan import CallPlanner
from toolwright.runtime.calls.request_state import write_output
from toolwright.runtime.calls.settle import INTERRUPTED, CallSettler
from toolwright.runtime.calls.wait import CallWaiter
from toolwright.runtime.context.commit import Changes, EffectRefused, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.files import WholeResults
from toolwright.runtime.model.answer import requested_call
from toolwright.runtime.runs.act import Do
from toolwright.runtime.runs.loop import next_in_conversation
from toolwright.runtime.runs.outcomes import Outcomes
from toolwright.runtime.state.state import RunState

CANCELLED = ToolResult.fail("The run was cancelled.", error_code="cancelled")
STOPPED = ToolResult.fail("The session was stopped within this call.", error_code="stopped")


class HandlerCalls:
    """Makes the calls of handlers, including calls of `handler_tools`, which no model is shown."""

    def __init__(
        self,
        do: Do,
        outcomes: Outcomes,
        planner: CallPlanner,
        executor: CallExecutor,
        settler: CallSettler,
        waiter: CallWaiter,
        nested: Nested,
        whole: WholeResults,
        handler_tools: Mapping[str, Tool],
    ) -> None:
        self._do = do
        self._outcomes = outcomes
        self._planner = planner
        self._executor = executor
        self._settler = settler
        self._waiter = waiter
        self._nested = nested
        self._whole = whole
        self._handler_tools = handler_tools

    async def invoke(
        self, context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
    ) -> ToolResult:
        """Make a call from a handler, through the same pipeline, recorded as a nested call of the handler's call."""
        async with context.turn():
            return await self._invoke(context, state, name, arguments, built_in)

    async def _invoke(
        self, context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
    ) -> ToolResult:
        asking = HOST_TOOLS if context.answers_nothing else self._handler_tools
        tools = asking if built_in else context.active.by_name
        if context.values is None:
            return (await self._invoked(context, state, name, arguments, tools))[1]
        with context.reserve(state.values.keys):
            call, result = await self._invoked(context, state, name, arguments, tools)
        if call.status != "resolved" or result.status != "success":
            return result
        changes = Changes(effects=tuple(state.values.effects))
        result = write_output(context, changes, call, result)  # with the result that the handler reads
        state.values.put(changes.effects)
        return result

    async def _invoked(
        self, context: RunContext, state: RunState, name: str, arguments: str, tools: Mapping[str, Tool]
    ) -> tuple[Call, ToolResult]:
        """Return the recorded call and its whole result."""
        call_id, number, recorded = await self._nested.next_call(context, state, name, arguments)
        if recorded is None:
            asked = QueuedCall(name=name, arguments=arguments)
            await self._begin(context, requested_call(context, asked, number, state.call, tools), tools)
        else:
            context.put_nested(recorded)
            if recorded.status == "running":
                await self._begin_again(context, recorded, tools)
        call = context.nested[call_id]
        if call.awaits_approval or call.status == "created":
            await self._wait_for_approval(context, call, tools)
            call = context.nested[call_id]
        if call.status == "running":
            await self._execute(context, state, call)
            call = context.nested[call_id]
        if call.status == "waiting":
            result = await self._waiter.nested(context, call)
            call = context.nested[call_id]
        else:
            result = self._settler.result_of(call)
        whole = await context.retry_until_available(lambda: self._whole.of(call.thread_id, result))
        return call, whole

    async def _begin(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
        """Commit the new call, settled immediately or started."""
        context.put_nested(call)
        await decide(context, call, tools)

        def begun() -> Next:
            changes = self._started(context, call, tools)
            changes.nested, changes.call_changes = (changes.call_changes[0].after,), []
            return Next(kind=Result, changes=changes, run=context.run)

        await context.commit(begun)

    def _started(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> Changes:
        """Return the changes that start a call, or that settle it if a variable of its tool is missing."""
        changes = Changes()
        self._planner.begin(context, [call], changes, tools)
        return changes

    async def _wait_for_approval(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
        """Wait for the approval of a handler's call, with its timeout paused. If approved, the call starts."""
        if call.awaits_approval:
            with context.abort.clocks_paused():
                await self._waiter.nested(context, call)
        if context.nested[call.id].status != "created":
            return
        await decide(context, context.nested[call.id], tools)

        def begun() -> Next:
            changes = self._started(context, context.nested[call.id], tools)
            return Next(kind=Result, changes=changes, run=context.run)

        await context.commit(begun)

    async def _begin_again(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
        """Restart a call during which a process crashed, if it is repeatable; otherwise its effect is unknown (D14)."""
        changes = Changes(is_restart=True)
        if not self._planner.restart(context, changes, call, tools):
            changes.is_restart = False
            await self._outcomes.close_interrupted_below(context, changes, call)
            unknown = ToolResult.fail(INTERRUPTED, error_code="interrupted")
            self._settler.settle(context, changes, call, unknown)
        await context.write(Result, changes, context.run)

    async def _execute(self, context: RunContext, state: RunState, call: Call) -> None:
        prepared = context.prepared.get(call.id)
        assert prepared is not None, "a call that runs was started here"
        try:
            if prepared.tool.carrier == "prompt":
                result = await self._converse(context, state, call, prepared)
                ran = HandlerOutcome(result, self._executor.state(context, call, self.invoke))
            else:
                ran = await self._executor.carry_out(context, call, prepared, self.invoke)
        finally:
            context.prepared.pop(call.id, None)
        await self._commit_outcome(context, call, ran)
        await state.adopt(ran.state.execution)

    async def _converse(
        self, context: RunContext, state: RunState, call: Call, prepared: PreparedCall
    ) -> ToolResult:
        """Execute a prompt tool's whole conversation, while a handler waits for its answer."""
        frame = await self._nested.frame(context, call, prepared)
        if isinstance(frame, ToolResult):
            return frame
        frame.holder = state.execution
        depth = context.enter_frame(frame)
        try:
            while frame.answer is None and not context.abort.aborted and not state.execution.ends:
                await self._do(context, next_in_conversation(context))
        finally:
            context.leave_frames(depth)
        return frame.answer or (CANCELLED if context.abort.aborted else STOPPED)

    async def _commit_outcome(self, context: RunContext, call: Call, ran: HandlerOutcome) -> None:
        """Commit the outcome of a handler's call."""

        async def taken() -> Next:
            kept, changes = await self._executor.keep(context, ran, call, ran.outcome or CANCELLED)
            await self._outcomes.close_unfinished_below(context, changes, call)
            self._settler.put_outcome(context, changes, call, kept)
            return Next(kind=Result, changes=changes, run=context.run)

        try:
            await context.commit(taken)
        except (Unwritable, EffectRefused) as error:
            changes = Changes()
            self._settler.settle(
                context, changes, call, ToolResult.fail(error.message, error_code=error.code)
            )
            await context.write(Result, changes, context.run)
