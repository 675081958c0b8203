"""The way of a run: model, calls, model …, each step committed before the next, until the run ends or parks."""

import asyncio
from dataclasses import replace

from toolwright.core.agents.turns import after_text
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import logger
from toolwright.core.errors import DefinitionError, MissingExtra, ModelError, StoreError, ToolwrightError
from toolwright.core.journal.units import Answer, Finish, Release
from toolwright.core.model import ModelResponse
from toolwright.core.text import words
from toolwright.core.value import changed
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.env.redaction import clean_response
from toolwright.runtime.hold.hold import Answered, Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.model.answer import assistant_message, calls_of, step_row, total_cost
from toolwright.runtime.model.ask import Asking
from toolwright.runtime.runs.before_step import Before
from toolwright.runtime.runs.ending import Closing, End
from toolwright.runtime.runs.poison import back_off, end_back_off, has_own_message, retries
from toolwright.runtime.runs.step_calls import Carrying
from toolwright.runtime.threads.inbox import own_message
from toolwright.wire.event import run_event, step_event

log = logger("toolwright.runtime")

MODEL_FAULTS = (ModelError, StoreError, DefinitionError, MissingExtra)
"""What is the model's fault, or that of how it was named, and not of what it was asked (D21)."""


class Loop:
    """Leads runs. Their state is in the `Hold` and in the journal."""

    def __init__(
        self, calls: Calls, asking: Asking, before: Before, carrying: Carrying, closing: Closing
    ) -> None:
        self._calls = calls
        self._asking = asking
        self._before = before
        self._carrying = carrying
        self._closing = closing

    async def go(self, hold: Hold) -> None:
        """Lead the run until it is over or parked, and the thread left; or until the process is to stop."""
        try:
            if await self._before.speaks(hold):
                await self._lead(hold)
        finally:
            if hold.run.status not in ("queued", "waiting"):  # over, given back, or another owner's
                for frame in hold.frames:
                    self._calls.forget(frame.calls)
                self._calls.forget(hold.nested)

    async def _lead(self, hold: Hold) -> None:
        task = asyncio.current_task()
        assert task is not None, "a run is led by a task"
        # also if a handler has swallowed the cancellation that said so the process is to stop
        while hold.run.status == "running" and not hold.stopping and not task.cancelling():
            if hold.abort.aborted:
                await self._closing.end(hold, Finish, Move(), End("cancelled"))
            else:
                await self._advance(hold)

    async def _advance(self, hold: Hold) -> None:
        """One commit farther, where the run stands."""
        if hold.frame.call is not None:
            await self._carrying.within.advance(hold)
        elif waiting := hold.unanswered():
            await self._carrying.answer(hold, waiting[0])
        elif await self._before.ready(hold):
            await self._step(hold)

    async def fail(self, hold: Hold, error: str) -> None:
        """End the run as failed."""
        await self._closing.end(hold, Finish, Move(), End("failed", error=error))

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
        except (Exception, SystemExit) as error:  # a model of the user's own may raise anything
            log.exception("The model of the agent %r failed.", hold.voice.agent.name)
            await self.fail(hold, f"The model failed: {words(error)}")
            return
        if response is not None:
            await self._take_answer(hold, move, response)

    async def _model_failed(self, hold: Hold, error: str) -> None:
        """A message of the thread's own is not tried again; what came otherwise waits for better times (D21)."""
        if has_own_message(hold):
            await self._closing.end(hold, Finish, Move(), End("failed", error=error, fault="model"))
            return
        run = replace(hold.run, status="queued", error=hold.redactor.text(error))
        told = [] if retries(hold.run) else [run_event(run)]  # once, however often it is tried
        await hold.commit(Release, back_off(hold, Move(events=told)), run)

    async def _take_answer(self, hold: Hold, move: Move, response: ModelResponse) -> None:
        if hold.redactor:
            told = [response.text, *[call.arguments for call in response.calls]]
            response = await in_thread_if_large(
                told, clean_response, response, hold.redactor, hold.voice.by_name
            )
        committed: Answered = "space"
        while committed == "space":
            committed = await self._put_answer(hold, move.copy(), response)

    async def _put_answer(self, hold: Hold, move: Move, response: ModelResponse) -> Answered:
        """Commit an answer; again, without the space that a call was to be shown in, if that is gone."""
        number = hold.run.step_count + 1
        calls = calls_of(hold, response, number)
        hold.put(move, assistant_message(hold, response, calls, number, hold.place(move)))
        if retries(hold.run):
            move.events.insert(0, run_event(changed(hold.run, error=None)))
        move = end_back_off(hold, move)
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
            return await self._carrying.begin(
                hold, move, calls, run, step_event("step.done", number, response.usage)
            )
        move.events.append(step_event("step.done", number, response.usage))
        run, reason = after_text(hold.voice, changed(run, output=response.text))
        end = self._closing.limit_end(hold, run) if reason is None else End("completed", reason)
        return await self._closing.close_step(hold, Answer, move, run, end)
