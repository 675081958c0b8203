"""Calls that handlers make with `invoke_tool`: frames with one call, which the run loop executes in memory.

Their ids are derived from the handler's call, `<call>.1`, `<call>.2` …, so that they continue after a crash.
"""

from collections.abc import Mapping
from functools import partial

from toolwright.core.mcp.questions import HOST_TOOLS
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import QueuedCall
from toolwright.core.tools.tool import Tool
from toolwright.runtime.calls.decide import CallDecider
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.request_state import write_output
from toolwright.runtime.calls.settle import CallSettler
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame
from toolwright.runtime.files import WholeResults
from toolwright.runtime.model.answer import requested_call
from toolwright.runtime.runs.act import CANCELLED, Do
from toolwright.runtime.runs.hook_actions import HookActions
from toolwright.runtime.runs.loop import Action, LeavePrompt, WaitForCalls, next_in_conversation
from toolwright.runtime.runs.outcomes import Outcomes
from toolwright.runtime.state.state import RunState

STOPPED = ToolResult.fail("The session was stopped within this call.", error_code="stopped")


class HandlerCalls:
    """Makes the calls of handlers, including calls of `handler_tools`, which no model is shown."""

    def __init__(
        self,
        do: Do,
        outcomes: Outcomes,
        settler: CallSettler,
        nested: Nested,
        whole: WholeResults,
        handler_tools: Mapping[str, Tool],
        decider: CallDecider,
        hooks: HookActions,
    ) -> None:
        self._decider = decider
        self._hooks = hooks
        self._do = do
        self._outcomes = outcomes
        self._settler = settler
        self._nested = nested
        self._whole = whole
        self._handler_tools = handler_tools

    async def invoke(
        self, context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
    ) -> ToolResult:
        """Make a call from a handler, through the same pipeline, recorded as a nested call of the handler's call."""
        asking = HOST_TOOLS if context.answers_nothing else self._handler_tools
        tools = asking if built_in else None
        async with context.turn():
            if context.values is None:
                return (await self._make(context, state, name, arguments, tools))[1]
            with context.reserve(state.values.keys):
                call, result = await self._make(context, state, name, arguments, tools)
            if call.status != "resolved" or result.status != "success":
                return result
            changes = Changes(effects=tuple(state.values.effects))
            result = write_output(context, changes, call, result)  # with the result that the handler reads
            state.values.put(changes.effects)
            return result

    async def _make(
        self,
        context: RunContext,
        state: RunState,
        name: str,
        arguments: str,
        tools: Mapping[str, Tool] | None,
    ) -> tuple[Call, ToolResult]:
        """Return the recorded call and its whole result."""
        call_id, number, recorded = await self._nested.next_call(context, state, name, arguments)
        call = recorded or requested_call(
            context, QueuedCall(name=name, arguments=arguments), number, state.call, tools
        )
        frame = Frame(context.active, [], {}, {}, state.call, holder=state.execution, tools=tools)
        frame.calls[call_id] = frame.open[call_id] = call
        frame.put(call)
        depth = context.enter_frame(frame)
        try:
            if recorded is None:
                await self._decider.decide(context, call)
                await context.commit(partial(self._outcomes.call_made, context, call))
            while frame.open:
                action = _next_action(context, state, frame)
                if isinstance(action, WaitForCalls) and context.abort.aborted and context.frame is frame:
                    call = await context.reload_call(call_id)
                    if call.status == "waiting":
                        break
                else:
                    await self._do(context, action)
        finally:
            context.leave_frames(depth)
            context.prepared.pop(call_id, None)
            self._settler.forget(frame.calls)
        call = frame.calls[call_id]
        if tools is None and context.active.hooks is not None and context.active.hooks.after_call:
            call = await self._hooks.nested_result(context, call, state)
        result = self._settler.result_of(context, call)
        return call, await context.retry_until_available(lambda: self._whole.of(call.thread_id, result))


def _next_action(context: RunContext, state: RunState, frame: Frame) -> Action:
    """Return the next action for the call of a handler. A prompt tool's conversation ends with the run or the turn."""
    if context.frame is not frame and context.abort.aborted:
        return LeavePrompt(frame=context.frame, error=CANCELLED)
    if context.frame is not frame and state.execution.ends:
        return LeavePrompt(frame=context.frame, error=STOPPED)
    return next_in_conversation(context)
