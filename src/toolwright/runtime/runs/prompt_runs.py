"""Calls within calls: the conversation of a prompt tool, and what handlers call with `invoke_tool`.

Their rows are named after the call that made them. What a model asks for within a prompt tool is executed like
any call, in a frame of its own on top of the thread's; what a handler calls is waited for in memory.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from toolwright.core.env.logs import logger
from toolwright.core.errors import ModelUnavailable, ToolwrightError, Unwritable
from toolwright.core.journal.effects import KeepTexts
from toolwright.core.journal.units import Answer, Result
from toolwright.core.mcp.questions import HOST_TOOLS
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.results.result import ToolResult
from toolwright.core.text import quantity
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import QueuedCall, Run
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.calls.approvals import decide
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.calls.handlers import HandlerOutcome, Handlers
from toolwright.runtime.calls.nested import Nested, nested_calls, nested_message
from toolwright.runtime.calls.request_state import write_output
from toolwright.runtime.calls.waiting import Waiting
from toolwright.runtime.context.changes import Changes, Next
from toolwright.runtime.context.commit import EffectRefused
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.frame import Frame
from toolwright.runtime.env.redaction import clean_arguments, clean_response
from toolwright.runtime.model.answer import asked_call, total_cost
from toolwright.runtime.model.ask import ModelAnswers, ModelRaised
from toolwright.runtime.runs.commits import RunCommits
from toolwright.runtime.runs.poison import end_outage, lasts_too_long, outage
from toolwright.runtime.runs.step_calls import StepCalls
from toolwright.runtime.state.state import RunState

log = logger("toolwright.runtime")

CANCELLED = ToolResult.fail("The run was cancelled.", error_code="cancelled")
STOPPED = ToolResult.fail("The session was stopped within this call.", error_code="stopped")


class PromptRuns:
    """Leads conversations within calls, and makes the calls of handlers, also those of `handler_tools`."""

    def __init__(
        self,
        step_calls: StepCalls,
        calls: Calls,
        handlers: Handlers,
        model_answers: ModelAnswers,
        waiting: Waiting,
        nested: Nested,
        commits: RunCommits,
        handler_tools: Mapping[str, Tool],
        max_outage: timedelta,
    ) -> None:
        self._max_outage = max_outage
        self._step_calls = step_calls
        self._calls = calls
        self._handlers = handlers
        self._model_answers = model_answers
        self._waiting = waiting
        self._nested = nested
        self._commits = commits
        self._handler_tools = handler_tools

    # ── the conversation of a prompt tool ───────────────────────────────────────────────────────────────────

    async def advance(self, context: RunContext) -> None:
        """Take the conversation in progress one commit farther: a call, a step, or the end."""
        frame = context.frame
        queued = [each for each in context.run.queued if each.within == frame.id]
        last = frame.messages[-1] if frame.messages else None
        if frame.open:
            await self._step_calls.answer(context, next(iter(frame.open.values())))
        elif last is not None and last.role == "assistant" and not last.calls:
            await self._answered(context, frame, await self._nested.answer(context, frame))
        elif frame.steps >= self._commits.max_steps:
            steps = quantity(self._commits.max_steps, "step")
            error = f"The prompt {context.active.prompt.name!r} came to no answer in {steps}."
            await self._answered(context, frame, ToolResult.fail(error, error_code="max_steps"))
        elif queued:
            await self._call_queued(context, frame, queued)
        else:
            await self._step(context, frame)

    async def _step(self, context: RunContext, frame: Frame) -> None:
        response = await self._answer(context, frame)
        if isinstance(response, ToolResult):
            await self._answered(context, frame, response)
        elif response is not None:
            usage, cost = context.run.usage + response.usage, total_cost(context.run.cost, response.cost)
            run = changed(context.run, usage=usage, cost=cost, error=None, waiting=None)
            await self._say(context, frame, response, run)

    async def _answer(self, context: RunContext, frame: Frame) -> ModelResponse | ToolResult | None:
        """Return the model's answer, or the error that its failure is to the caller.

        None if the run was cancelled, or is suspended until the model is available: a handler that waits for the answer
        cannot be suspended, so it gets the error.
        """
        try:
            response = await self._model_answers.ask_within(context, frame)
        except ModelUnavailable as error:
            waiting = outage(context, error)
            held = any(each.holder is not None for each in context.frames)
            if not held and not lasts_too_long(waiting, self._max_outage):
                await self._commits.wait(context, waiting)
                return None
            context.run = changed(
                context.run, error=None, waiting=None
            )  # another model's outage begins again
            return ToolResult.fail(error.message, error_code=error.code)
        except ToolwrightError as error:
            return ToolResult.fail(error.message, error_code=error.code)
        except ModelRaised as error:
            log.exception("The model of the prompt %r failed.", context.active.prompt.name)
            return ToolResult.fail(f"The model failed: {error}", error_code="model")
        if response is None or not context.redactor:
            return response
        return clean_response(response, context.redactor, context.active.by_name)

    async def _call_queued(self, context: RunContext, frame: Frame, queued: Sequence[QueuedCall]) -> None:
        asked = tuple([ModelCall(id="", name=each.name, arguments=each.arguments) for each in queued])
        rest = tuple([each for each in context.run.queued if each not in queued])
        await self._say(context, frame, ModelResponse(calls=asked), changed(context.run, queued=rest))

    async def _say(self, context: RunContext, frame: Frame, response: ModelResponse, run: Run) -> None:
        async def said() -> Next:
            changes, calls = Changes(), nested_calls(context, frame, response)
            if run.error is None:
                changes = end_outage(context, changes)
            changes.messages.append(nested_message(context, frame, response, calls, context.place(changes)))
            if response.model and frame.texts:
                changes.effects += (KeepTexts(texts=frame.texts),)
            if calls:
                return self._step_calls.begin(context, changes, calls, run)
            return Next(kind=Answer, changes=changes, run=run)

        if await self._commits.commit(context, said) == "done" and response.model and frame.texts:
            self._model_answers.windows.records.kept(frame)

    async def _answered(self, context: RunContext, frame: Frame, result: ToolResult) -> None:
        """The conversation is over: its call has its result, or the handler that has made the call."""
        assert frame.call is not None, "the thread's own conversation is never left"
        self._calls.forget(frame.calls)
        if frame.holder is not None:
            frame.answer = result
            return
        context.leave_frames(len(context.frames) - 1)
        await self._step_calls.leave(context, frame.call, result)

    # ── what handlers call ──────────────────────────────────────────────────────────────────────────────────

    async def invoke(
        self, context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
    ) -> ToolResult:
        """Make a call from within a handler, through the same pipeline, recorded below the handler's own call."""
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
        result = write_output(context, changes, call, result)  # with the result of the handler that hears it
        state.values.put(changes.effects)
        return result

    async def _invoked(
        self, context: RunContext, state: RunState, name: str, arguments: str, tools: Mapping[str, Tool]
    ) -> tuple[Call, ToolResult]:
        """The call as it was made, and its result."""
        arguments = clean_arguments(arguments, context.redactor) if context.redactor else arguments
        call_id, number, recorded = await self._nested.recorded(context, state, name, arguments)
        if recorded is None:
            asked = QueuedCall(name=name, arguments=arguments)
            await self._begin(context, asked_call(context, asked, number, call_id, state.call, tools), tools)
        else:
            context.put_nested(recorded)
            if recorded.status == "running":
                await self._begin_again(context, recorded, tools)
        call = context.nested[call_id]
        if call.is_asked or call.status == "created":
            await self._wait_for_approval(context, call, tools)
            call = context.nested[call_id]
        if call.status == "running":
            await self._carry_out(context, state, call)
            call = context.nested[call_id]
        if call.status == "waiting":
            result = await self._waiting.nested(context, call)
            return context.nested[call_id], result
        return call, self._calls.result_of(call)

    async def _begin(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
        """Commit the call, settled at once or begun."""
        context.put_nested(call)
        await decide(context, call, tools)

        async def begun() -> Next:
            changes = Changes()
            refused = self._calls.refusal(context, call, tools)
            if refused is None:
                self._calls.begin(context, [call], changes, tools)
            else:
                self._calls.settle(context, changes, call, refused)
            changes.nested, changes.call_changes = (call.moved(changes.call_changes[0]),), []
            return Next(kind=Result, changes=changes, run=context.run)

        await self._commits.commit(context, begun)

    async def _wait_for_approval(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
        """A person decides of a handler's call, whose time stands still meanwhile; approved, it begins."""
        if call.is_asked:
            with context.abort.clocks_paused():
                await self._waiting.nested(context, call)
        if context.nested[call.id].status != "created":
            return

        async def begun() -> Next:
            changes, approved = Changes(), context.nested[call.id]
            refused = self._calls.refusal(context, approved, tools)
            if refused is None:
                self._calls.begin(context, [approved], changes, tools)
            else:
                self._calls.settle(context, changes, approved, refused)
            return Next(kind=Result, changes=changes, run=context.run)

        await self._commits.commit(context, begun)

    async def _begin_again(self, context: RunContext, call: Call, tools: Mapping[str, Tool]) -> None:
        """A process died while it ran this call: it runs again if it may, else its effect is unknown (D14)."""
        changes = Changes()
        result = self._calls.interrupted(context, call, tools)
        if result is None:
            self._calls.begin_again(context, changes, call)
        else:
            await self._step_calls.close_left_below(context, changes, call)
            self._calls.settle(context, changes, call, result)
        await context.commit(Result, changes, context.run)

    async def _carry_out(self, context: RunContext, state: RunState, call: Call) -> None:
        prepared = context.prepared(call.id)
        assert prepared is not None, "a call that runs was begun here"
        try:
            if prepared.tool.carrier == "prompt":
                result = await self._converse(context, state, call, prepared)
                ran = HandlerOutcome(result, self._handlers.state(context, call, self.invoke))
            else:
                ran = await self._handlers.carry_out(context, call, prepared, self.invoke)
        finally:
            context.unprepare(call.id)
        await self._take(context, call, ran)
        await state.hear(ran.state.execution)

    async def _converse(
        self, context: RunContext, state: RunState, call: Call, prepared: PreparedCall
    ) -> ToolResult:
        """A prompt tool's whole conversation, while a handler waits for its answer."""
        frame = await self._nested.frame(context, call, prepared)
        if isinstance(frame, ToolResult):
            return frame
        frame.holder = state.execution
        depth = context.enter_frame(frame)
        try:
            while frame.answer is None and not context.abort.aborted and not state.execution.ends:
                await self.advance(context)
        finally:
            context.leave_frames(depth)
        return frame.answer or (CANCELLED if context.abort.aborted else STOPPED)

    async def _take(self, context: RunContext, call: Call, ran: HandlerOutcome) -> None:
        """Commit what became of a handler's call."""

        async def taken() -> Next:
            kept, changes = await self._handlers.keep(context, ran, call, ran.outcome or CANCELLED)
            await self._step_calls.close_below(context, changes, call)
            self._calls.take(context, changes, call, kept)
            return Next(kind=Result, changes=changes, run=context.run)

        try:
            await self._commits.commit(context, taken)
        except (Unwritable, EffectRefused) as error:
            changes = Changes()
            self._calls.settle(context, changes, call, ToolResult.fail(error.message, error_code=error.code))
            await context.commit(Result, changes, context.run)
