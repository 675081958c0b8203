"""The way of a run: model, calls, model …, each step committed before the next, until the run ends or parks."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from toolwright.core.agents.active import after_text
from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.logs import logger
from toolwright.core.errors import (
    ContextTooLong,
    DefinitionError,
    MissingExtra,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    ServerFailed,
    StoreError,
    ToolwrightError,
)
from toolwright.core.journal.effects import KeepTexts
from toolwright.core.journal.units import Answer, Finish, Result
from toolwright.core.limits import MAX_CALLS
from toolwright.core.model import ModelResponse
from toolwright.core.results.result import ToolResult
from toolwright.core.schemas.output import (
    MOST_CORRECTIONS,
    OUTPUT_FAULT,
    AnswerFault,
    FormedAnswer,
    ValidatorFailed,
    judge_answer,
)
from toolwright.core.text import brief, sentence
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.run import StopReason
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.agents.speakers import Speakers
from toolwright.runtime.calls.calls import Calls
from toolwright.runtime.calls.handlers import Handlers
from toolwright.runtime.calls.nested import Nested
from toolwright.runtime.calls.waiting import Waiting
from toolwright.runtime.children.step_tools import StepTools
from toolwright.runtime.context.changes import Changes, End, Next
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env.env import Environment
from toolwright.runtime.env.redaction import clean_response
from toolwright.runtime.model.answer import (
    assistant_message,
    calls_of,
    correction_message,
    corrections,
    step_row,
    total_cost,
)
from toolwright.runtime.model.ask import ModelAnswers, ModelRaised
from toolwright.runtime.runs.before_step import BeforeStep
from toolwright.runtime.runs.commits import RunCommits
from toolwright.runtime.runs.poison import end_outage, has_own_message, lasts_too_long, outage
from toolwright.runtime.runs.prompt_runs import PromptRuns
from toolwright.runtime.runs.step_calls import StepCalls
from toolwright.runtime.state.state import RunState
from toolwright.runtime.threads.inbox import cleaned_texts, own_message
from toolwright.wire.event import step_event

log = logger("toolwright.runtime")

MODEL_FAULTS = (ModelError, StoreError, DefinitionError, MissingExtra)
"""Errors that are the model's fault, or that of how it was named, and not of what it was asked (D21)."""


MOST_SHOWN = 500  # characters of an answer that its error shows


class Loop:
    """Leads runs. Their state is in the `RunContext` and in the journal."""

    def __init__(
        self,
        calls: Calls,
        handlers: Handlers,
        model_answers: ModelAnswers,
        waiting: Waiting,
        nested: Nested,
        commits: RunCommits,
        speakers: Speakers,
        step_tools: StepTools,
        environment: Environment,
        handler_tools: Mapping[str, Tool],
        max_outage: timedelta,
    ) -> None:
        self._max_outage = max_outage
        self._calls = calls
        self._model_answers = model_answers
        self._windows = model_answers.windows
        self._commits = commits
        self._step_calls = StepCalls(calls, handlers, waiting, nested, commits, self._invoke)
        self._before_step = BeforeStep(self._step_calls, commits, speakers, step_tools, environment)
        self._prompt_runs = PromptRuns(
            self._step_calls,
            calls,
            handlers,
            model_answers,
            waiting,
            nested,
            commits,
            handler_tools,
            max_outage,
        )

    async def go(self, context: RunContext) -> None:
        """Lead the run until it is over or parked, and the thread left; or until the process is to stop."""
        try:
            if await self._before_step.select_agent(context):
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
            frame = context.frame
            if context.abort.aborted:
                await self._commits.end(context, Finish, Changes(), End("cancelled"))
            elif frame.call is not None:
                await self._prompt_runs.advance(context)
            elif frame.open:
                await self._step_calls.answer(context, next(iter(frame.open.values())))
            elif await self._before_step.ready(context):
                await self._step(context)

    async def _invoke(
        self, context: RunContext, state: RunState, name: str, arguments: str, built_in: bool
    ) -> ToolResult:
        """Make a call of a handler's."""
        return await self._prompt_runs.invoke(context, state, name, arguments, built_in)

    async def _step(self, context: RunContext) -> None:
        """Ask the model, and commit its answer."""
        changes = Changes()
        if context.inbox:
            joined = [*context.joined()]
            _read_joined(context, changes, joined, await cleaned_texts(joined))
        context.name_calls({})
        try:
            response = await self._model_answers.ask(context, changes)
        except ContextTooLong as error:  # the fault of what was read: asking again does not help
            # unless it joined the run just now: once it is committed, it can be left out
            if changes.messages:
                await context.commit(Result, changes, context.run)
                return
            await self._commits.fail(context, error.message, error.code)
            return
        except MODEL_FAULTS as error:
            if context.seconds_left() <= 0:
                await self._commits.end(context, Finish, Changes(), End("completed", "max_seconds"))
            else:
                await self._model_failed(context, error)
            return
        except ToolwrightError as error:
            await self._commits.fail(context, error.message, error.code)
            return
        except ModelRaised as error:
            log.exception("The model of the agent %r failed.", context.active.agent.name)
            await self._commits.fail(context, f"The model failed: {error}", ModelError.code)
            return
        if response is None:
            return
        if context.redactor.secrets:
            active, texts = context.active, [response.text, *[call.arguments for call in response.calls]]
            response = await in_thread_if_large(
                texts,
                clean_response,
                response,
                context.redactor,
                active.by_name,
                formed=active.form is not None,
            )
        formed: FormedAnswer | None = None
        if context.active.form is not None:
            try:
                formed = await in_thread_if_large(response.text, judge_answer, context.active.form, response)
            except AnswerFault as fault:
                await self._commits.commit(context, partial(self._correct, context, changes, response, fault))
                return
            except ValidatorFailed as error:
                log.exception("The answer of the agent %r could not be judged.", context.active.agent.name)
                fault = sentence(f"The answer could not be judged: {error}")
                await self._commits.fail(context, fault, OUTPUT_FAULT)
                return
            except ServerFailed as error:
                await self._commits.fail(context, error.message, error.code)
                return
            response = formed.response
        if len(response.calls) > MAX_CALLS:
            error = f"The model asked for {len(response.calls)} calls in one answer. At most {MAX_CALLS} are made."
            await self._commits.fail(context, error, ModelError.code)
            return
        answered = await self._commits.commit(
            context, partial(self._answer, context, changes, response, formed)
        )
        if context.root.texts and answered == "done":
            self._windows.records.kept(context.root)

    async def _model_failed(self, context: RunContext, fault: ToolwrightError) -> None:
        """Wait for the model to be back, with pauses (D21): at most `max_outage` for a message of the thread's own.

        A model that refuses such a message is not asked again. One that refuses what the inbox has brought is asked as
        long, since what is set up wrongly can be mended; then the run fails, and it counts against the events, which
        are not waited for again.
        """
        waiting = outage(context, fault)
        is_too_long = lasts_too_long(waiting, self._max_outage)
        was_tried = any(event.attempts for event in context.reading.values())
        if has_own_message(context) and (is_too_long or not isinstance(fault, ModelUnavailable)):
            end = End("failed", error=fault.message, error_code=fault.code, fault="model")
            await self._commits.end(context, Finish, Changes(), end)
        elif isinstance(fault, ModelRefused) and fault.of_content and (is_too_long or was_tried):
            await self._commits.fail(context, fault.message, fault.code)
        else:
            await self._commits.wait(context, waiting)

    async def _answer(
        self,
        context: RunContext,
        before: Changes,
        response: ModelResponse,
        formed: FormedAnswer | None = None,
    ) -> Next:
        """The model's answer as it is recorded, with what follows from it; `before` it was told those changes."""
        changes = before.copy() if before.messages or before.effects else Changes()
        number, at = context.run.step_count + 1, context.clock.now()
        calls = calls_of(context, response, number, at) if response.calls else []
        seq = context.place(changes)
        context.put(changes, assistant_message(context, response, calls, number, seq, at))
        if context.run.error is not None or context.thread.faults:
            changes = end_outage(context, changes)
        changes.step = step_row(context, response, number, at)
        if context.root.texts:
            changes.effects += (KeepTexts(texts=context.root.texts),)
        run = changed(
            context.run,
            step_count=number,
            usage=context.run.usage + response.usage,
            cost=total_cost(context.run.cost, response.cost),
            output=(response.text or context.run.output) if formed is None else formed.output,
            error=None,
            waiting=None,
        )
        done = step_event("step.done", number, response.usage)
        if calls:
            return self._step_calls.begin(context, changes, calls, run, done)
        changes.events.append(done)
        reason: StopReason | None = None
        if formed is None:
            run = changed(run, output=response.text)
        if formed is None or formed.over:
            run, reason = after_text(context.active, run)
        end = self._commits.limit_end(context, run) if reason is None else End("completed", reason)
        return Next(kind=Answer, changes=changes, run=run, ends_step=True, end=end)

    async def _correct(
        self, context: RunContext, before: Changes, response: ModelResponse, fault: AnswerFault
    ) -> Next:
        """An answer that breaks its schema, and the faults for the model; the run fails after too many in a row."""
        following = await self._answer(
            context, before, changed(response, calls=()), FormedAnswer(response=response)
        )
        if corrections(context.root.messages, context.run.id) >= MOST_CORRECTIONS:
            error = f"The model's answer broke its schema {MOST_CORRECTIONS + 1} times in a row: {brief(str(fault))}"
            error = f"{sentence(error)} The last answer: {brief(response.text, MOST_SHOWN)}"
            end = End("failed", error=error, error_code=OUTPUT_FAULT)
            return changed(following, end=end)
        changes = following.changes
        context.say(
            changes, correction_message(context, fault, context.run.step_count + 1, context.place(changes))
        )
        return following


def _read_joined(
    context: RunContext, changes: Changes, joined: Sequence[InboxEvent], cleaned: Mapping[str, str]
) -> None:
    """Messages that joined the run are read with the next answer (D22)."""
    step = context.run.step_count + 1
    for event in joined:
        changes.read += (event.event_id,)
        context.say(changes, own_message(event, context.run, step, context.place(changes), cleaned))
