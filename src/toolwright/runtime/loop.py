"""The way of a run: model, calls, model …, each step committed before the next, until the run ends or parks."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta

from toolwright.core import backoff
from toolwright.core.brief import words
from toolwright.core.call import Call
from toolwright.core.catalog import ActiveAgent
from toolwright.core.errors import (
    DefinitionError,
    MissingExtra,
    ModelError,
    ModelRefused,
    StoreError,
    ToolwrightError,
    Unwritable,
)
from toolwright.core.logs import logger
from toolwright.core.model import Model, ModelRequest, ModelResponse
from toolwright.core.ports import Bus, Models
from toolwright.core.result import Outcome, ToolResult
from toolwright.core.run import Run
from toolwright.core.units import Advance, Answer, Finish, Leaving, Park, Release, Result
from toolwright.core.value import changed
from toolwright.runtime.answer import assistant_message, calls_of, step_row, total_cost
from toolwright.runtime.answer_limit import AnswerLimit
from toolwright.runtime.calls import Calls, Ran
from toolwright.runtime.ending import End, ended, last_words
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.hold import Answered, Hold, Move
from toolwright.runtime.home import Homes, Section, prompt, sections
from toolwright.runtime.inbox import OWN, own_message, preview
from toolwright.runtime.redaction import clean_response
from toolwright.runtime.stream import AnswerStream
from toolwright.wire.event import run_event, step_event

log = logger("toolwright.runtime")

MODEL_FAULTS = (ModelError, StoreError, DefinitionError, MissingExtra)
"""What is the model's fault, or that of how it was named, and not of what it was asked (D21)."""

ANSWER_LIMITS = (600.0, 3600.0)
"""Seconds that a model may be silent within an answer, and that a whole answer may take."""

INLINE_WAIT = 1.0  # seconds that a run waits in memory before it is parked


class Loop:
    """Leads runs. Their state is in the `Hold` and in the journal; only how long to spare a failing model is here."""

    def __init__(
        self,
        calls: Calls,
        models: Models,
        bus: Bus,
        files: FileKeeper,
        homes: Homes,
        *,
        default_model: str | None,
        max_steps: int,
        inline_wait: float = INLINE_WAIT,
        answer_limits: tuple[float, float] = ANSWER_LIMITS,
    ) -> None:
        self._calls = calls
        self._models = models
        self._bus = bus
        self._files = files
        self._homes = homes
        self._default_model = default_model
        self._max_steps = max_steps
        self._inline_wait = inline_wait
        self._answer_limits = answer_limits
        self._delays: dict[str, float] = {}

    async def go(self, hold: Hold, agent: ActiveAgent) -> None:
        """Lead the run until it is over or parked, and the thread left; or until the process is to stop."""
        try:
            await self._lead(hold, agent)
        finally:
            if hold.run.status not in ("queued", "waiting"):  # over, given back, or another owner's
                self._delays.pop(hold.thread.id, None)
                self._calls.forget(hold.calls)

    async def _lead(self, hold: Hold, agent: ActiveAgent) -> None:
        while hold.run.status == "running" and not _stopping(hold):
            if hold.abort.aborted:
                await self._end(hold, Finish, Move(), End("cancelled"))
            elif waiting := hold.unanswered():
                await self._answer_call(hold, agent, waiting[0])
            elif hold.run.step_count >= self._limit(agent):
                await self._end(hold, Finish, Move(), End("completed", "max_steps"))
            else:
                await self._step(hold, agent)

    async def fail(self, hold: Hold, error: str) -> None:
        """End the run as failed."""
        await self._end(hold, Finish, Move(), End("failed", error=error))

    # ── the model's part of a step ──────────────────────────────────────────────────────────────────────────

    async def _step(self, hold: Hold, agent: ActiveAgent) -> None:
        joined = hold.joined()
        move = Move(read=[event.event_id for event in joined])
        for event in joined:
            hold.say(move, own_message(event, hold.run, hold.run.step_count + 1, hold.place(move)))
        try:
            response = await self._ask(hold, agent, move)
        except MODEL_FAULTS as error:
            await self._model_failed(hold, error.message)
            return
        except ToolwrightError as error:
            await self.fail(hold, error.message)
            return
        except Exception as error:
            log.exception("The model of the agent %r failed.", agent.agent.name)
            await self.fail(hold, f"The model failed: {words(error)}")
            return
        if response is not None:
            await self._take_answer(hold, agent, move, response)

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

    async def _ask(self, hold: Hold, agent: ActiveAgent, move: Move) -> ModelResponse | None:
        """The model's answer; None if the run was cancelled meanwhile."""
        number = hold.run.step_count + 1
        request = ModelRequest(
            messages=(*hold.messages, *move.messages),
            system=hold.redactor.text(await self._system(hold, agent, move)),
            tools=agent.tools.model_definitions,
            tool_choice=agent.tool_choice,
            step=number,
            who=agent.who,
            load=self._files.load,
        )
        model = await self._model(agent)
        stream = AnswerStream(hold, self._bus, number, agent.by_name, await hold.unspoken())
        response: ModelResponse | None = None
        limit = AnswerLimit(*self._answer_limits, hold.abort)
        try:
            async with limit.scope, aclosing(model.respond(request)) as events:
                hold.abort.within(limit.scope)
                async for event in events:
                    limit.progress()
                    if isinstance(event, ModelResponse):
                        response = event
                        stream.finish()
                    else:
                        stream.take(event)
        except TimeoutError:
            limit.check()
            if not limit.scope.expired():
                raise
            return None
        finally:
            hold.abort.within(None)
            stream.close()
        if response is None:
            raise ModelError("The model ended its answer without a response.")
        return response

    async def _system(self, hold: Hold, agent: ActiveAgent, move: Move) -> str:
        """What the agent is told at this step. A space that it may be in no longer it is put out of (D10)."""
        if not agent.agent.toolkits:
            return agent.system
        await hold.check_space(move)
        parts = sections(agent, await hold.insist(lambda: self._homes.of(agent)), hold.space_id)
        if agent.agent.inbox_preview:
            waiting = [event for event in hold.inbox.values() if event.run_id != hold.run.id]
            parts.append(Section(name="inbox", text=preview(waiting) or ""))
        return prompt(parts)

    async def _model(self, agent: ActiveAgent) -> Model:
        model = agent.model if agent.model is not None else self._default_model
        if model is None:
            raise ModelRefused(
                f"The agent {agent.agent.name!r} has no model: name one in its prompt, or set TOOLWRIGHT_MODEL."
            )
        return await self._models(model)

    async def _take_answer(self, hold: Hold, agent: ActiveAgent, move: Move, response: ModelResponse) -> None:
        if hold.redactor:
            response = clean_response(response, hold.redactor, agent.by_name)
        committed: Answered = "space"
        while committed == "space":
            committed = await self._put_answer(hold, agent, _copy(move), response)

    async def _put_answer(
        self, hold: Hold, agent: ActiveAgent, move: Move, response: ModelResponse
    ) -> Answered:
        """Commit an answer; again, without the space that a call was to be shown in, if that is gone."""
        number = hold.run.step_count + 1
        calls = calls_of(hold, response, number, agent)
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
        done = step_event("step.done", number, response.usage)
        if not calls:
            move.events.append(done)
            run = replace(run, output=response.text)
            return await self._close_step(hold, Answer, move, run, End("completed", "end_turn"))
        self._calls.begin(hold, agent.by_name, calls, move)
        moved = {change.id: change for change in move.changes}
        move.calls = [call.moved(moved[call.id]) if call.id in moved else call for call in calls]
        move.changes = []
        if all(call.id in _answered(move) for call in calls):
            move.events.append(done)
            return await self._close_step(hold, Answer, move, run, self._limit_end(run, agent))
        return await hold.commit(Answer, move, run)

    # ── the calls' part of a step ───────────────────────────────────────────────────────────────────────────

    async def _answer_call(self, hold: Hold, agent: ActiveAgent, call: Call) -> None:
        match call.status:
            case "running" if call.id in hold.prepared:
                await self._carry_out(hold, agent, call)
            case "running":
                await self._recover(hold, agent, call)
            case "waiting":
                await self._wait(hold, agent, call)
            case "created":
                await self._go_on(hold, agent, Move())
            case _:
                move = Move()
                self._calls.deliver(hold, move, call)
                await self._go_on(hold, agent, move)

    async def _carry_out(self, hold: Hold, agent: ActiveAgent, call: Call) -> None:
        ran = await self._calls.carry_out(hold, call)
        del hold.prepared[call.id]
        if ran.outcome is None:
            await self._end(hold, Finish, Move(), End("cancelled"))
            return
        try:
            await self._take_outcome(hold, agent, call, ran, ran.outcome)
        except Unwritable as error:
            move = Move()
            self._calls.settle(hold, move, call, ToolResult.fail(error.message, error_code=error.code))
            await self._go_on(hold, agent, move)

    async def _take_outcome(
        self, hold: Hold, agent: ActiveAgent, call: Call, ran: Ran, outcome: Outcome
    ) -> None:
        """Commit an outcome; again, with other names for its files, if one of their paths was taken meanwhile."""
        committed: Answered = "file"
        while committed in ("file", "space"):
            kept, move = await self._calls.keep(hold, ran, call, outcome)
            if not self._calls.take(hold, move, call, kept):
                committed = await hold.commit(Result, move, hold.run)
            elif ran.state.execution.skipped is not None:
                committed = await self._skip(hold, move, ran.state.execution.skipped.reason)
            elif ran.state.execution.stopped:
                committed = await self._stop(hold, move)
            else:
                committed = await self._go_on(hold, agent, move)

    async def _recover(self, hold: Hold, agent: ActiveAgent, call: Call) -> None:
        """A process died while it ran this call."""
        move = Move()
        result = self._calls.interrupted(hold, agent.by_name, call)
        if result is None:
            self._calls.begin_again(hold, move, call)
            await hold.commit(Result, move, hold.run)
            return
        self._calls.settle(hold, move, call, result)
        await self._go_on(hold, agent, move)

    async def _wait(self, hold: Hold, agent: ActiveAgent, call: Call) -> None:
        """Wait a moment in memory, else park; the call's end comes from elsewhere, or with its deadline."""
        hold.nudged.clear()
        call = await hold.reload_call(call.id)
        if call.status != "waiting":
            return
        left = self._calls.left(call, hold.clock)
        began = hold.waits.setdefault(call.id, hold.clock.monotonic())
        in_memory = self._inline_wait - (hold.clock.monotonic() - began)
        if left <= 0:
            move = Move()
            self._calls.time_out(hold, move, call)
            await self._go_on(hold, agent, move)
        elif in_memory <= 0:
            await self._park(hold, call, left)
        else:
            await self._nudged(hold, min(left, in_memory))

    async def _nudged(self, hold: Hold, seconds: float) -> None:
        """Return when the thread is woken, its run is cancelled, or the time is over."""
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                hold.abort.within(scope)
                await hold.nudged.wait()
        except TimeoutError:
            return
        finally:
            hold.abort.within(None)

    async def _park(self, hold: Hold, call: Call, left: float) -> None:
        run = replace(hold.run, status="waiting", waiting={"reason": "calls", "callIds": [call.id]})
        due = hold.clock.now() + timedelta(seconds=left)
        move = Move(events=[run_event(run)], leaving=Leaving(gen=hold.gen, due=due))
        await hold.commit(Park, move, run)

    async def _go_on(self, hold: Hold, agent: ActiveAgent, move: Move) -> Answered:
        """Commit a result together with the start of the next call, or with the end of the step."""
        answered = _answered(move)
        rest = [call for call in hold.unanswered() if call.id not in answered]
        if rest and all(call.status == "created" for call in rest):
            self._calls.begin(hold, agent.by_name, rest, move)
            answered = _answered(move)
        if any(call.id not in answered for call in rest):
            return await hold.commit(Result, move, hold.run)
        move.events.append(step_event("step.done", hold.run.step_count))
        return await self._close_step(hold, Result, move, hold.run, self._limit_end(hold.run, agent))

    async def _stop(self, hold: Hold, move: Move) -> Answered:
        """A handler has ended the session: the calls behind it do not begin."""
        move.events.append(step_event("step.done", hold.run.step_count))
        return await self._end(hold, Result, move, End("completed", "session_stop"))

    async def _skip(self, hold: Hold, move: Move, reason: str | None) -> Answered:
        """The agent has nothing to say."""
        move.events.append(step_event("step.done", hold.run.step_count))
        return await self._end(hold, Result, move, End("skipped", reason=reason))

    # ── commits and ends ────────────────────────────────────────────────────────────────────────────────────

    async def _close_step(
        self, hold: Hold, kind: Callable[..., Advance], move: Move, run: Run, end: End | None
    ) -> Answered:
        """Commit the end of a step: the run's end too, unless a message or a cancel has come between."""
        if end is not None:
            outcome = await hold.commit(kind, *ended(hold, move, run, end))
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
            outcome = await hold.commit(kind, *ended(hold, whole, hold.run, end))
            if outcome in ("done", "file", "space"):
                return outcome
            if outcome == "cancel":
                end = End("cancelled")

    def _limit(self, agent: ActiveAgent) -> int:
        return agent.max_steps or self._max_steps

    def _limit_end(self, run: Run, agent: ActiveAgent) -> End | None:
        return End("completed", "max_steps") if run.step_count >= self._limit(agent) else None


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


def _stopping(hold: Hold) -> bool:
    """Whether the process is to stop: also if a handler has swallowed the cancellation that said so."""
    task = asyncio.current_task()
    return hold.stopping or (task is not None and task.cancelling() > 0)


def _has_own_message(hold: Hold) -> bool:
    """Whether the run reads a message of the thread's own, and not only what came by way of the inbox."""
    read = [message for message in hold.messages if message.run_id == hold.run.id and message.role == "user"]
    return any(message.id.startswith(OWN) for message in read) or bool(hold.joined())
