"""The way of a run: model, calls, model …, each step committed before the next, until the run ends or parks."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from toolwright.core import backoff
from toolwright.core.brief import words
from toolwright.core.call import Call
from toolwright.core.effects import Activated
from toolwright.core.env import EnvVar
from toolwright.core.errors import (
    DefinitionError,
    InvalidRequest,
    MissingExtra,
    ModelError,
    StoreError,
    ToolwrightError,
    Unwritable,
)
from toolwright.core.event import EventDraft
from toolwright.core.logs import logger
from toolwright.core.model import ModelResponse
from toolwright.core.result import Outcome, ToolResult
from toolwright.core.run import QueuedCall, Run
from toolwright.core.units import Advance, Answer, Finish, Leaving, Release, Result
from toolwright.core.value import changed
from toolwright.runtime.answer import (
    asked_call,
    assistant_message,
    calls_of,
    queued_message,
    step_row,
    total_cost,
)
from toolwright.runtime.asking import Asking
from toolwright.runtime.calls import Calls, Ran
from toolwright.runtime.ending import End, Ending, last_words
from toolwright.runtime.env import Environment
from toolwright.runtime.family import child_id_of
from toolwright.runtime.hold import Answered, Hold, Move
from toolwright.runtime.inbox import OWN, own_message
from toolwright.runtime.nested import Nested, nested_calls, nested_message
from toolwright.runtime.offering import Offering
from toolwright.runtime.redaction import clean_response
from toolwright.runtime.speakers import Speakers
from toolwright.runtime.state import RunState
from toolwright.runtime.turns import Made, after_calls, after_text, side_over, steps_of
from toolwright.runtime.waiting import Waiting
from toolwright.runtime.wants import lacking_for, lacking_now, needed_by, park_for
from toolwright.wire.event import run_event, step_event

log = logger("toolwright.runtime")

MODEL_FAULTS = (ModelError, StoreError, DefinitionError, MissingExtra)
"""What is the model's fault, or that of how it was named, and not of what it was asked (D21)."""


class Loop:
    """Leads runs. Their state is in the `Hold` and in the journal; only how long to spare a failing model is here."""

    def __init__(
        self,
        calls: Calls,
        asking: Asking,
        waiting: Waiting,
        nested: Nested,
        speakers: Speakers,
        offering: Offering,
        ending: Ending,
        environment: Environment,
        *,
        max_steps: int,
    ) -> None:
        self._calls = calls
        self._asking = asking
        self._waiting = waiting
        self._nested = nested
        self._speakers = speakers
        self._offering = offering
        self._ending = ending
        self._environment = environment
        self._max_steps = max_steps
        self._delays: dict[str, float] = {}

    async def go(self, hold: Hold) -> None:
        """Lead the run until it is over or parked, and the thread left; or until the process is to stop."""
        try:
            if await self._speaks(hold):
                await self._lead(hold)
        finally:
            if hold.run.status not in ("queued", "waiting"):  # over, given back, or another owner's
                self._delays.pop(hold.thread.id, None)
                self._calls.forget(hold.root.calls)

    async def _lead(self, hold: Hold) -> None:
        while hold.run.status == "running" and not _stopping(hold):
            if hold.abort.aborted:
                await self._end(hold, Finish, Move(), End("cancelled"))
            else:
                await self._advance(hold)

    async def _advance(self, hold: Hold) -> None:
        """One commit farther, where the run stands."""
        if waiting := hold.unanswered():
            await self._answer_call(hold, waiting[0])
        elif hold.frame.call is not None:
            await self._within(hold)
        elif await self._ready(hold):
            await self._step(hold)

    async def fail(self, hold: Hold, error: str) -> None:
        """End the run as failed."""
        await self._end(hold, Finish, Move(), End("failed", error=error))

    # ── before a step ───────────────────────────────────────────────────────────────────────────────────────

    async def _speaks(self, hold: Hold) -> bool:
        """Let the side speak whose turn it is, of the agent that answers now; false if there is none."""
        base = hold.base
        if base is None or base.agent_id != hold.thread.answering:
            found = await hold.insist(lambda: self._speakers.of(hold.thread, hold.run))
            if isinstance(found, str):
                await self.fail(hold, found)
                return False
            base = found
        base = base.sides.get(hold.run.side, base)
        hold.base = base
        hold.speaks(base)
        if base.relations:
            hold.speaks(await self._offering.offered(hold, base))
        return True

    async def _ready(self, hold: Hold) -> bool:
        """Whether the model is to be asked now; else what comes before that is done."""
        if not await self._speaks(hold):
            return False
        if hold.run.queued:
            run = replace(hold.run, queued=())
            await self._call_at_once(hold, Move(), run, hold.run.queued)
            return False
        if hold.run.step_count >= self._limit(hold) or self._side_is_out(hold):
            await self._end(hold, Finish, Move(), End("completed", "max_steps"))
            return False
        missing = await lacking_now(hold)
        if missing:
            await park_for(hold, missing)
            return False
        return not hold.voice.relations or not await self._begin_immediate(hold)

    async def _begin_immediate(self, hold: Hold) -> bool:
        """Call what a prompt calls as soon as it is active, once; whether there was such a thing (S0 §5)."""
        side = hold.run.side
        if side in hold.thread.activated:
            return False
        try:
            found = await self._offering.immediate(hold)
        except InvalidRequest as error:
            await self.fail(hold, error.message)
            return True
        if not found:
            return False
        sides = (*hold.thread.activated, side)
        move = Move(effects=[Activated(thread_id=hold.thread.id, sides=sides)])
        values = [each.values for each in found]
        await self._call_at_once(hold, move, hold.run, [each.call for each in found], values)
        return True

    async def _call_at_once(
        self,
        hold: Hold,
        move: Move,
        run: Run,
        queued: Sequence[QueuedCall],
        values: Sequence[Mapping[str, EnvVar]] = (),
    ) -> None:
        """Begin calls that no model has asked for: they are recorded as if the one that speaks had made them.

        `values` are what their children get for themselves.
        """
        calls = [asked_call(hold, each, number) for number, each in enumerate(queued, len(hold.root.calls))]
        move.env = tuple(
            [
                self._environment.change(child_id_of(call.id), name, var, hold.clock.now())
                for call, own in zip(calls, values, strict=False)
                for name, var in own.items()
            ]
        )
        committed: Answered = "space"
        while committed == "space":
            whole = _copy(move)
            hold.put(whole, queued_message(hold, calls, hold.place(whole)))
            committed = await self._begin(hold, whole, calls, run)

    # ── the model's part of a step ──────────────────────────────────────────────────────────────────────────

    async def _step(self, hold: Hold) -> None:
        joined = hold.joined()
        move = Move(read=[event.event_id for event in joined])
        for event in joined:
            hold.say(move, own_message(event, hold.run, hold.run.step_count + 1, hold.place(move)))
        try:
            response = await self._asking.ask(hold, move)
        except MODEL_FAULTS as error:
            await self._model_failed(hold, error.message)
            return
        except ToolwrightError as error:
            await self.fail(hold, error.message)
            return
        except Exception as error:
            log.exception("The model of the agent %r failed.", hold.voice.agent.name)
            await self.fail(hold, f"The model failed: {words(error)}")
            return
        if response is not None:
            await self._take_answer(hold, move, response)

    async def _model_failed(self, hold: Hold, error: str) -> None:
        """A message of the thread's own is not tried again; what came otherwise waits for better times (D21)."""
        if _has_own_message(hold):
            await self._end(hold, Finish, Move(), End("failed", error=error, fault="model"))
            return
        error = hold.redactor.text(error)
        delay = backoff.longer(self._delays.get(hold.thread.id))
        self._delays[hold.thread.id] = delay
        run = replace(hold.run, status="queued", error=error)
        leaving = Leaving(gen=hold.gen, due=hold.clock.now() + timedelta(seconds=delay))
        await hold.commit(Release, Move(events=[run_event(run)], leaving=leaving), run)

    async def _take_answer(self, hold: Hold, move: Move, response: ModelResponse) -> None:
        if hold.redactor:
            response = clean_response(response, hold.redactor, hold.voice.by_name)
        committed: Answered = "space"
        while committed == "space":
            committed = await self._put_answer(hold, _copy(move), response)

    async def _put_answer(self, hold: Hold, move: Move, response: ModelResponse) -> Answered:
        """Commit an answer; again, without the space that a call was to be shown in, if that is gone."""
        number = hold.run.step_count + 1
        calls = calls_of(hold, response, number)
        hold.put(move, assistant_message(hold, response, calls, number, hold.place(move)))
        self._delays.pop(hold.thread.id, None)
        move.step = step_row(hold, response, number)
        run = changed(
            hold.run,
            step_count=number,
            usage=hold.run.usage + response.usage,
            cost=total_cost(hold.run.cost, response.cost),
            output=response.text or hold.run.output,
            error=None,
        )
        if calls:
            return await self._begin(hold, move, calls, run, step_event("step.done", number, response.usage))
        move.events.append(step_event("step.done", number, response.usage))
        run, reason = after_text(hold.voice, changed(run, output=response.text))
        end = self._limit_end(hold, run) if reason is None else End("completed", reason)
        return await self._close_step(hold, Answer, move, run, end)

    async def _begin(
        self, hold: Hold, move: Move, calls: list[Call], run: Run, done: EventDraft | None = None
    ) -> Answered:
        """Commit calls that are new, the first that needs the outside world begun."""
        self._calls.begin(hold, calls, move)
        moved = {change.id: change for change in move.changes}
        move.calls = [call.moved(moved[call.id]) if call.id in moved else call for call in calls]
        move.changes = []
        if any(call.id not in _answered(move) for call in calls):
            return await hold.commit(Answer, move, run)
        if done is not None:
            move.events.append(done)
        return await self._after_calls(hold, Answer, move, run)

    # ── the calls' part of a step ───────────────────────────────────────────────────────────────────────────

    async def _answer_call(self, hold: Hold, call: Call) -> None:
        match call.status:
            case "running" if call.id in hold.prepared:
                await self._carry_out(hold, call)
            case "running":
                await self._recover(hold, call)
            case "waiting":
                lost = await self._waiting.wait(hold, call)
                if lost is not None:
                    await self._go_on(hold, lost)
            case "created":
                await self._start(hold, call)
            case _:
                move = Move()
                self._calls.deliver(hold, move, call)
                await self._go_on(hold, move)

    async def _start(self, hold: Hold, call: Call) -> None:
        """A call's turn has come; it waits for the values that its tool needs."""
        tool = hold.voice.by_name.get(call.name)
        if tool is not None and needed_by(hold, tool):
            await hold.insist(hold.look_at_env)
            missing = lacking_for(hold, tool)
            if missing:
                await park_for(hold, missing)
                return
        await self._go_on(hold, Move())

    async def _carry_out(self, hold: Hold, call: Call) -> None:
        if hold.prepared[call.id].tool.carrier == "prompt":
            await self._enter(hold, call)
            return
        ran = await self._calls.carry_out(hold, call, self._invoke)
        del hold.prepared[call.id]
        if ran.outcome is None:
            await self._end(hold, Finish, Move(), End("cancelled"))
            return
        await self._take(hold, call, ran, ran.outcome)

    async def _take(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> None:
        try:
            await self._take_outcome(hold, call, ran, outcome)
        except Unwritable as error:
            move = Move()
            self._calls.settle(hold, move, call, ToolResult.fail(error.message, error_code=error.code))
            await self._go_on(hold, move)

    async def _take_outcome(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> None:
        """Commit an outcome; again, with other names for its files, if one of their paths was taken meanwhile."""
        committed: Answered = "file"
        while committed in ("file", "space"):
            kept, move = await self._calls.keep(hold, ran, call, outcome)
            await self._close_below(hold, move, call)
            run = (
                changed(hold.run, queued=(*hold.run.queued, *ran.state.queued))
                if ran.state.queued
                else hold.run
            )
            execution = ran.state.execution
            if not self._calls.take(hold, move, call, kept):
                committed = await hold.commit(Result, move, run)
            elif execution.skipped is not None:
                committed = await self._skip(hold, move, execution.skipped.reason)
            elif execution.stopped:
                committed = await self._stop(hold, move)
            elif execution.side_stopped:
                committed = await self._stop_side(hold, move)
            else:
                committed = await self._go_on(hold, move, run)

    async def _recover(self, hold: Hold, call: Call) -> None:
        """A process died while it ran this call."""
        move = Move()
        result = self._calls.interrupted(hold, call)
        if result is None:
            self._calls.begin_again(hold, move, call)
            await hold.commit(Result, move, hold.run)
            return
        await self._close_below(hold, move, call)
        self._calls.settle(hold, move, call, result)
        await self._go_on(hold, move)

    async def _go_on(self, hold: Hold, move: Move, run: Run | None = None) -> Answered:
        """Commit a result together with the start of the next call, or with the end of the step."""
        run = hold.run if run is None else run
        answered = _answered(move)
        rest = [call for call in hold.unanswered() if call.id not in answered]
        if rest and all(call.status == "created" for call in rest):
            self._calls.begin(hold, rest, move)
            answered = _answered(move)
        if any(call.id not in answered for call in rest) or hold.frame.call is not None:
            return await hold.commit(Result, move, run)
        move.events.append(step_event("step.done", run.step_count))
        return await self._after_calls(hold, Result, move, run)

    async def _after_calls(self, hold: Hold, kind: Callable[..., Advance], move: Move, run: Run) -> Answered:
        """All calls of a step are answered: perhaps that ends a turn, or the run."""
        if hold.frame.call is not None:
            return await hold.commit(kind, move, run)
        run, reason = after_calls(hold.voice, run, _made(hold, move))
        end = self._limit_end(hold, run) if reason is None else End("completed", reason)
        if end is not None and end.stop_reason == "max_steps" and run.queued:
            end = None
        return await self._close_step(hold, kind, move, run, end)

    async def _stop(self, hold: Hold, move: Move) -> Answered:
        """A handler has ended the session: the calls behind it do not begin."""
        move.events.append(step_event("step.done", hold.run.step_count))
        return await self._end(hold, Result, move, End("completed", "session_stop"))

    async def _stop_side(self, hold: Hold, move: Move) -> Answered:
        """A handler has ended the turn of its side: the calls behind it do not begin."""
        move.events.append(step_event("step.done", hold.run.step_count))
        assert hold.root.voice is not None, "somebody speaks"
        run, reason = side_over(hold.root.voice, hold.run, "end_turn")
        if reason is not None:
            return await self._end(hold, Result, move, End("completed", reason))
        self._calls.give_up(hold, move, last_words(End("completed")))
        committed = await self._close_step(hold, Result, move, run, None)
        if committed == "done":
            hold.frames[1:] = []
        return committed

    async def _skip(self, hold: Hold, move: Move, reason: str | None) -> Answered:
        """The agent has nothing to say."""
        move.events.append(step_event("step.done", hold.run.step_count))
        return await self._end(hold, Result, move, End("skipped", reason=reason))

    # ── calls within calls ──────────────────────────────────────────────────────────────────────────────────

    async def _enter(self, hold: Hold, call: Call) -> None:
        """A prompt tool's own conversation begins, or goes on where it was."""
        begun = await self._nested.frame(hold, call)
        if begun.frame is None:
            del hold.prepared[call.id]
            state = self._calls.state(hold, call, self._invoke)
            await self._take(hold, call, Ran(begun.error, state), begun.error or ToolResult.fail(""))
            return
        hold.frames.append(begun.frame)

    async def _within(self, hold: Hold) -> None:
        """A step of a prompt tool's conversation, or its end."""
        frame = hold.frame
        last = frame.messages[-1] if frame.messages else None
        if last is not None and last.role == "assistant" and not last.calls:
            await self._leave(hold, await self._nested.answer(hold, frame))
        elif frame.steps >= self._max_steps:
            error = f"The prompt {hold.voice.prompt.name!r} came to no answer in {self._max_steps} steps."
            await self._leave(hold, ToolResult.fail(error, error_code="max_steps"))
        else:
            await self._step_within(hold)

    async def _step_within(self, hold: Hold) -> None:
        frame = hold.frame
        try:
            response = await self._asking.ask_within(hold, frame)
        except ToolwrightError as error:
            await self._leave(hold, ToolResult.fail(error.message, error_code=error.code))
            return
        except Exception as error:
            log.exception("The model of the prompt %r failed.", hold.voice.prompt.name)
            await self._leave(hold, ToolResult.fail(f"The model failed: {words(error)}", error_code="model"))
            return
        if response is None:
            return
        response = clean_response(response, hold.redactor, hold.voice.by_name) if hold.redactor else response
        usage, cost = hold.run.usage + response.usage, total_cost(hold.run.cost, response.cost)
        run = changed(hold.run, usage=usage, cost=cost)
        committed: Answered = "space"
        while committed == "space":
            move, calls = Move(), nested_calls(hold, frame, response)
            move.messages.append(nested_message(hold, frame, response, calls, hold.place(move)))
            committed = await (
                self._begin(hold, move, calls, run) if calls else hold.commit(Answer, move, run)
            )

    async def _leave(self, hold: Hold, result: ToolResult) -> None:
        """A prompt tool's conversation is over: its call has its result."""
        frame = hold.frames.pop()
        call = frame.call
        assert call is not None, "the thread's own conversation is never left"
        del hold.prepared[call.id]
        invoked = hold.invoked.pop(call.id, None)
        if invoked is not None:
            invoked.append(result)
            return
        state = self._calls.state(hold, call, self._invoke)
        await self._take(hold, call, Ran(result, state), result)

    async def _close_below(self, hold: Hold, move: Move, call: Call) -> None:
        """What a call has begun and not ended, ends with it."""
        if hold.nested or call.attempts > 1:
            for each in await self._nested.left_open(hold, call):
                self._calls.close_nested(hold, move, each)

    async def _invoke(self, hold: Hold, state: RunState, name: str, arguments: str) -> ToolResult:
        """Make a call from within a handler, through the same pipeline, recorded below the handler's own call."""
        number = state.next_number()
        parent = state.call
        call_id, known = await self._nested.recorded(hold, parent, name, arguments, number)
        if known is not None and known.result is not None:
            return self._calls.result_of(known)
        call = known or asked_call(hold, QueuedCall(name=name, arguments=arguments), number, call_id, parent)
        return await self._make(hold, call, new=known is None)

    async def _make(self, hold: Hold, call: Call, *, new: bool) -> ToolResult:
        move = Move()
        refused = self._calls.begin_nested(hold, move, call, new=new)
        await hold.commit(Result, move, hold.run)
        if refused is not None:
            return refused
        if hold.prepared[call.id].tool.carrier == "prompt":
            return await self._make_prompt(hold, call)
        ran = await self._calls.carry_out(hold, call, self._invoke)
        del hold.prepared[call.id]
        outcome = ran.outcome or ToolResult.fail("The run was cancelled.", error_code="cancelled")
        return await self._settle_nested(hold, call, ran, outcome)

    async def _make_prompt(self, hold: Hold, call: Call) -> ToolResult:
        begun = await self._nested.frame(hold, call)
        answer: list[ToolResult] = [] if begun.error is None else [begun.error]
        if begun.frame is not None:
            hold.invoked[call.id] = answer
            depth = len(hold.frames)
            hold.frames.append(begun.frame)
            while len(hold.frames) > depth and not hold.abort.aborted:
                await self._advance(hold)
            hold.frames[depth:] = []
        state = self._calls.state(hold, call, self._invoke)
        result = answer[0] if answer else ToolResult.fail("The run was cancelled.", error_code="cancelled")
        return await self._settle_nested(hold, call, Ran(result, state), result)

    async def _settle_nested(self, hold: Hold, call: Call, ran: Ran, outcome: Outcome) -> ToolResult:
        while True:
            kept, move = await self._calls.keep(hold, ran, call, outcome)
            result = self._calls.take_nested(hold, move, call, kept)
            if await hold.commit(Result, move, hold.run) in ("file", "space"):
                continue
            return await self._waiting.nested(hold, call) if result is None else result

    # ── commits and ends ────────────────────────────────────────────────────────────────────────────────────

    async def _close_step(
        self, hold: Hold, kind: Callable[..., Advance], move: Move, run: Run, end: End | None
    ) -> Answered:
        """Commit the end of a step: the run's end too, unless a message or a cancel has come between."""
        if end is not None:
            outcome = await hold.commit(kind, *await self._ending.of(hold, move, run, end))
            if outcome not in ("unread", "cancel"):
                return outcome
        if not hold.abort.aborted:
            move.events.append(step_event("step.started", run.step_count + 1))
        return await hold.commit(kind, move, run)

    async def _end(self, hold: Hold, kind: Callable[..., Advance], move: Move, end: End) -> Answered:
        """End the run whatever comes between: unread messages are kept, open calls get an answer.

        Only a path that was taken meanwhile is left to whoever made the files.
        """
        end = replace(end, error=hold.redactor.optional(end.error))
        while True:
            whole = replace(
                move,
                messages=list(move.messages),
                changes=list(move.changes),
                events=list(move.events),
                effects=list(move.effects),
                read=[],
            )
            self._calls.give_up(hold, whole, last_words(end))
            for event in hold.joined():
                whole.read.append(event.event_id)
                hold.say(whole, own_message(event, hold.run, hold.run.step_count, hold.place(whole)))
            outcome = await hold.commit(kind, *await self._ending.of(hold, whole, hold.run, end))
            if outcome in ("done", "space") or (outcome == "file" and move.files):
                return outcome
            if outcome == "cancel":
                end = End("cancelled")

    def _limit(self, hold: Hold) -> int:
        """The most steps of the run: those of the one side, or of all of an agent with two."""
        voice = hold.root.voice
        one = None if voice is None or len(voice.sides) > 1 else voice.max_steps
        return one or self._max_steps

    def _side_is_out(self, hold: Hold) -> bool:
        voice = hold.root.voice
        if voice is None or len(voice.sides) < 2 or voice.max_steps is None:
            return False
        return steps_of(hold.speaker, hold.root.messages, hold.run) >= voice.max_steps

    def _limit_end(self, hold: Hold, run: Run) -> End | None:
        return End("completed", "max_steps") if run.step_count >= self._limit(hold) else None


def _copy(move: Move) -> Move:
    """The move as it was, to be tried again from there."""
    return replace(
        move,
        messages=[*move.messages],
        events=[*move.events],
        read=[*move.read],
        effects=[*move.effects],
        shown=dict(move.shown),
    )


def _answered(move: Move) -> set[str]:
    return {message.call_id for message in move.messages if message.call_id is not None}


def _made(hold: Hold, move: Move) -> list[Made]:
    """The calls of the step with how they went, some of them by this move."""
    calls = {call.id: call for call in (*hold.root.calls.values(), *move.calls)}
    status = {m.call_id: m.status for m in (*hold.root.messages, *move.messages) if m.role == "tool"}
    return [Made(c.name, c.arguments, status.get(c.id) == "success") for c in calls.values()]


def _stopping(hold: Hold) -> bool:
    """Whether the process is to stop: also if a handler has swallowed the cancellation that said so."""
    task = asyncio.current_task()
    return hold.stopping or (task is not None and task.cancelling() > 0)


def _has_own_message(hold: Hold) -> bool:
    """Whether the run reads a message of the thread's own, and not only what came by way of the inbox."""
    read = [
        message for message in hold.root.messages if message.run_id == hold.run.id and message.role == "user"
    ]
    return any(message.id.startswith(OWN) for message in read) or bool(hold.joined())
