"""Calls within calls: the conversation of a prompt tool, and what handlers call with `invoke_tool`.

Their rows are named after the call that made them. What a model asks for within a prompt tool is carried out like
any call, in a frame of its own on top of the thread's; what a handler calls is waited for in memory.
"""

from collections.abc import Sequence
from typing import Protocol

from toolwright.core.env.logs import logger
from toolwright.core.errors import ToolwrightError, Unwritable
from toolwright.core.journal.units import Answer, Result
from toolwright.core.model import ModelCall, ModelResponse
from toolwright.core.results.result import Outcome, ToolResult
from toolwright.core.text import quantity, words
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import QueuedCall, Run
from toolwright.core.value import changed
from toolwright.runtime.calls.calls import Calls, LastWords
from toolwright.runtime.calls.handlers import Handlers, Ran
from toolwright.runtime.calls.nested import Nested, nested_calls, nested_message
from toolwright.runtime.calls.waiting import Waiting
from toolwright.runtime.env.redaction import clean_arguments, clean_response
from toolwright.runtime.hold.frame import Frame
from toolwright.runtime.hold.hold import Answered, Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.model.answer import asked_call, total_cost
from toolwright.runtime.model.ask import Asking
from toolwright.runtime.state.state import RunState

log = logger("toolwright.runtime")

ENDED = LastWords(
    code="interrupted",
    what="The call that made this one ended",
    running="The call that made this one ended before it; its effect is unknown.",
)
CANCELLED = ToolResult.fail("The run was cancelled.", error_code="cancelled")
STOPPED = ToolResult.fail("The session was stopped within this call.", error_code="stopped")


class Way(Protocol):
    """What calls within calls need of the way of calls."""

    async def begin(self, hold: Hold, move: Move, calls: Sequence[Call], run: Run) -> Answered:
        """Commit calls that are new."""
        ...

    async def answer(self, hold: Hold, call: Call) -> None:
        """Take a call one commit farther."""
        ...

    async def take(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit what became of a call."""
        ...


class Within:
    """Leads conversations within calls, and makes the calls of handlers."""

    def __init__(
        self,
        way: Way,
        calls: Calls,
        handlers: Handlers,
        asking: Asking,
        waiting: Waiting,
        nested: Nested,
        *,
        max_steps: int,
    ) -> None:
        self._way = way
        self._calls = calls
        self._handlers = handlers
        self._asking = asking
        self._waiting = waiting
        self._nested = nested
        self._max_steps = max_steps

    # ── the conversation of a prompt tool ───────────────────────────────────────────────────────────────────

    async def enter(self, hold: Hold, call: Call) -> None:
        """It begins, or goes on where it was."""
        begun = await self._nested.frame(hold, call)
        if isinstance(begun, Frame):
            hold.frames.append(begun)
        else:
            await self._leave(hold, call, begun)

    async def advance(self, hold: Hold) -> None:
        """One commit farther: a call, a step, or the end."""
        frame = hold.frame
        waiting = frame.unanswered()
        queued = [each for each in hold.run.queued if each.within == frame.id]
        last = frame.messages[-1] if frame.messages else None
        if waiting:
            await self._way.answer(hold, waiting[0])
        elif last is not None and last.role == "assistant" and not last.calls:
            await self._answered(hold, frame, await self._nested.answer(hold, frame))
        elif frame.steps >= self._max_steps:
            error = f"The prompt {hold.voice.prompt.name!r} came to no answer in {quantity(self._max_steps, 'step')}."
            await self._answered(hold, frame, ToolResult.fail(error, error_code="max_steps"))
        elif queued:
            await self._call_queued(hold, frame, queued)
        else:
            await self._step(hold, frame)

    async def _step(self, hold: Hold, frame: Frame) -> None:
        response = await self._asked(hold, frame)
        if isinstance(response, ToolResult):
            await self._answered(hold, frame, response)
        elif response is not None:
            usage, cost = hold.run.usage + response.usage, total_cost(hold.run.cost, response.cost)
            await self._say(hold, frame, response, changed(hold.run, usage=usage, cost=cost))

    async def _asked(self, hold: Hold, frame: Frame) -> ModelResponse | ToolResult | None:
        """The model's answer; the error that its failure is to the caller; None if the run was cancelled."""
        try:
            response = await self._asking.ask_within(hold, frame)
        except ToolwrightError as error:
            return ToolResult.fail(error.message, error_code=error.code)
        except (Exception, SystemExit) as error:  # a model of the user's own may raise anything
            log.exception("The model of the prompt %r failed.", hold.voice.prompt.name)
            return ToolResult.fail(f"The model failed: {words(error)}", error_code="model")
        if response is None or not hold.redactor:
            return response
        return clean_response(response, hold.redactor, hold.voice.by_name)

    async def _call_queued(self, hold: Hold, frame: Frame, queued: Sequence[QueuedCall]) -> None:
        asked = tuple([ModelCall(id="", name=each.name, arguments=each.arguments) for each in queued])
        rest = tuple([each for each in hold.run.queued if each not in queued])
        await self._say(hold, frame, ModelResponse(calls=asked), changed(hold.run, queued=rest))

    async def _say(self, hold: Hold, frame: Frame, response: ModelResponse, run: Run) -> None:
        committed: Answered = "space"
        while committed == "space":
            move, calls = Move(), nested_calls(hold, frame, response)
            move.messages.append(nested_message(hold, frame, response, calls, hold.place(move)))
            committed = await (
                self._way.begin(hold, move, calls, run) if calls else hold.commit(Answer, move, run)
            )

    async def _answered(self, hold: Hold, frame: Frame, result: ToolResult) -> None:
        """The conversation is over: its call has its result, or the handler that has made the call."""
        assert frame.call is not None, "the thread's own conversation is never left"
        self._calls.forget(frame.calls)
        if frame.holder is not None:
            frame.answer = result
            return
        hold.frames.pop()
        await self._leave(hold, frame.call, result)

    async def _leave(self, hold: Hold, call: Call, result: ToolResult) -> None:
        del hold.prepared[call.id]
        await self._way.take(hold, call, Ran(result, self._handlers.state(hold, call, self.invoke)), result)

    # ── what handlers call ──────────────────────────────────────────────────────────────────────────────────

    async def invoke(self, hold: Hold, state: RunState, name: str, arguments: str) -> ToolResult:
        """Make a call from within a handler, through the same pipeline, recorded below the handler's own call."""
        arguments = clean_arguments(arguments, hold.redactor) if hold.redactor else arguments
        call_id, number, known = await self._nested.recorded(hold, state, name, arguments)
        if known is None:
            asked = QueuedCall(name=name, arguments=arguments)
            await self._begin(hold, asked_call(hold, asked, number, call_id, state.call))
        else:
            hold.nested[call_id] = known
            if known.status == "running":
                await self._begin_again(hold, known)
        call = hold.nested[call_id]
        if call.status == "running":
            await self._carry_out(hold, state, call)
            call = hold.nested[call_id]
        if call.status == "waiting":
            return await self._waiting.nested(hold, call)
        return self._calls.result_of(call)

    async def _begin(self, hold: Hold, call: Call) -> None:
        """Commit the call, settled at once or begun."""
        hold.nested[call.id] = call
        committed: Answered = "space"
        while committed == "space":
            move = Move()
            refused = self._calls.refusal(hold, call)
            if refused is None:
                self._calls.begin(hold, [call], move)
            else:
                self._calls.settle(hold, move, call, refused)
            move.nested, move.changes = [call.moved(move.changes[0])], []
            committed = await hold.commit(Result, move, hold.run)

    async def _begin_again(self, hold: Hold, call: Call) -> None:
        """A process died while it ran this call: it runs once more if it may, else its effect is unknown (D14)."""
        move = Move()
        result = self._calls.interrupted(hold, call)
        if result is None:
            self._calls.begin_again(hold, move, call)
        else:
            await self.close_left_below(hold, move, call)
            self._calls.settle(hold, move, call, result)
        await hold.commit(Result, move, hold.run)

    async def _carry_out(self, hold: Hold, state: RunState, call: Call) -> None:
        try:
            if hold.prepared[call.id].tool.carrier == "prompt":
                result = await self._converse(hold, state, call)
                ran = Ran(result, self._handlers.state(hold, call, self.invoke))
            else:
                ran = await self._handlers.carry_out(hold, call, self.invoke)
        finally:
            hold.prepared.pop(call.id, None)
        await self._take(hold, call, ran)
        await state.hear(ran.state.execution)

    async def _converse(self, hold: Hold, state: RunState, call: Call) -> ToolResult:
        """A prompt tool's whole conversation, while a handler waits for its answer."""
        frame = await self._nested.frame(hold, call)
        if isinstance(frame, ToolResult):
            return frame
        frame.holder = state.execution
        depth = len(hold.frames)
        hold.frames.append(frame)
        try:
            while frame.answer is None and not hold.abort.aborted and not state.execution.ends:
                await self.advance(hold)
        finally:
            hold.frames[depth:] = []
        return frame.answer or (CANCELLED if hold.abort.aborted else STOPPED)

    async def _take(self, hold: Hold, call: Call, ran: Ran) -> None:
        """Commit what became of a handler's call."""
        try:
            await self._take_outcome(hold, call, ran, ran.outcome or CANCELLED)
        except Unwritable as error:
            move = Move()
            self._calls.settle(hold, move, call, ToolResult.fail(error.message, error_code=error.code))
            await hold.commit(Result, move, hold.run)

    async def _take_outcome(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> None:
        committed: Answered = "file"
        while committed in ("file", "space", "busy", "room", "terminated"):
            kept, move = await self._handlers.keep(hold, ran, call, outcome)
            await self.close_below(hold, move, call)
            self._calls.take(hold, move, call, kept)
            committed = await hold.commit(Result, move, hold.run)

    async def close_below(self, hold: Hold, move: Move, call: Call) -> None:
        """What a call has begun and not ended, ends with it; one that began in this process is known to have or not."""
        if call.attempts > 1 or any(_at_work(each) for each in hold.nested.values()):
            await self.close_left_below(hold, move, call)

    async def close_left_below(self, hold: Hold, move: Move, call: Call) -> None:
        """The same for a call that a dead process had begun."""
        for each in await self._nested.left_open(hold, call):
            self._calls.close(hold, move, each, ENDED)


def _at_work(call: Call) -> bool:
    return call.status in ("created", "running", "waiting")
