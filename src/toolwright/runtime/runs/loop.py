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
from toolwright.runtime.context.changes import Changes
from toolwright.runtime.context.commit import Answered
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env.redaction import clean_response
from toolwright.runtime.model.answer import assistant_message, calls_of, step_row, total_cost
from toolwright.runtime.model.ask import Asking
from toolwright.runtime.runs.before_step import BeforeStep
from toolwright.runtime.runs.ending import End, RunEnding
from toolwright.runtime.runs.poison import back_off, end_back_off, has_own_message, retries
from toolwright.runtime.runs.step_calls import StepCalls
from toolwright.runtime.threads.inbox import own_message
from toolwright.wire.event import run_event, step_event

log = logger("toolwright.runtime")

MODEL_FAULTS = (ModelError, StoreError, DefinitionError, MissingExtra)
"""What is the model's fault, or that of how it was named, and not of what it was asked (D21)."""


class Loop:
    """Leads runs. Their state is in the `RunContext` and in the journal."""

    def __init__(
        self, calls: Calls, asking: Asking, before: BeforeStep, step_calls: StepCalls, run_ending: RunEnding
    ) -> None:
        self._calls = calls
        self._asking = asking
        self._before_step = before
        self._step_calls = step_calls
        self._run_ending = run_ending

    async def go(self, context: RunContext) -> None:
        """Lead the run until it is over or parked, and the thread left; or until the process is to stop."""
        try:
            if await self._before_step.speaks(context):
                await self._lead(context)
        finally:
            if context.run.status not in ("queued", "waiting"):  # over, given back, or another owner's
                for frame in context.frames:
                    self._calls.forget(frame.calls)
                self._calls.forget(context.nested)

    async def _lead(self, context: RunContext) -> None:
        task = asyncio.current_task()
        assert task is not None, "a run is led by a task"
        # also if a handler has swallowed the cancellation that said so the process is to stop
        while context.run.status == "running" and not context.stopping and not task.cancelling():
            if context.abort.aborted:
                await self._run_ending.end(context, Finish, Changes(), End("cancelled"))
            else:
                await self._advance(context)

    async def _advance(self, context: RunContext) -> None:
        """One commit farther, where the run stands."""
        if context.frame.call is not None:
            await self._step_calls.within.advance(context)
        elif waiting := context.frame.unanswered():
            await self._step_calls.answer(context, waiting[0])
        elif await self._before_step.ready(context):
            await self._step(context)

    async def fail(self, context: RunContext, error: str) -> None:
        """End the run as failed."""
        await self._run_ending.end(context, Finish, Changes(), End("failed", error=error))

    async def _step(self, context: RunContext) -> None:
        joined = context.joined()
        changes = Changes(read=[event.event_id for event in joined])
        for event in joined:
            context.say(
                changes, own_message(event, context.run, context.run.step_count + 1, context.place(changes))
            )
        try:
            response = await self._asking.ask(context, changes)
        except MODEL_FAULTS as error:
            await self._model_failed(context, error.message)
            return
        except ToolwrightError as error:
            await self.fail(context, error.message)
            return
        except (Exception, SystemExit) as error:  # a model of the user's own may raise anything
            log.exception("The model of the agent %r failed.", context.active.agent.name)
            await self.fail(context, f"The model failed: {words(error)}")
            return
        if response is not None:
            await self._take_answer(context, changes, response)

    async def _model_failed(self, context: RunContext, error: str) -> None:
        """A message of the thread's own is not tried again; what came otherwise waits for better times (D21)."""
        if has_own_message(context):
            await self._run_ending.end(context, Finish, Changes(), End("failed", error=error, fault="model"))
            return
        run = replace(context.run, status="queued", error=context.redactor.text(error))
        told = [] if retries(context.run) else [run_event(run)]  # once, however often it is tried
        await context.commit(Release, back_off(context, Changes(events=told)), run)

    async def _take_answer(self, context: RunContext, changes: Changes, response: ModelResponse) -> None:
        if context.redactor:
            told = [response.text, *[call.arguments for call in response.calls]]
            response = await in_thread_if_large(
                told, clean_response, response, context.redactor, context.active.by_name
            )
        committed: Answered = "space"
        while committed == "space":
            committed = await self._put_answer(context, changes.copy(), response)

    async def _put_answer(self, context: RunContext, changes: Changes, response: ModelResponse) -> Answered:
        """Commit an answer; again, without the space that a call was to be shown in, if that is gone."""
        number = context.run.step_count + 1
        calls = calls_of(context, response, number)
        context.put(changes, assistant_message(context, response, calls, number, context.place(changes)))
        if retries(context.run):
            changes.events.insert(0, run_event(changed(context.run, error=None)))
        changes = end_back_off(context, changes)
        changes.step = step_row(context, response, number)
        run = changed(
            context.run,
            step_count=number,
            usage=context.run.usage + response.usage,
            cost=total_cost(context.run.cost, response.cost),
            output=response.text or context.run.output,
            error=None,
        )
        if calls:
            return await self._step_calls.begin(
                context, changes, calls, run, step_event("step.done", number, response.usage)
            )
        changes.events.append(step_event("step.done", number, response.usage))
        run, reason = after_text(context.active, changed(run, output=response.text))
        end = self._run_ending.limit_end(context, run) if reason is None else End("completed", reason)
        return await self._run_ending.close_step(context, Answer, changes, run, end)
