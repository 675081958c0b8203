"""The model's part of a step: its request, its answer, and the time limits of the answer."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from toolwright.core.agents.active import ActiveAgent, steps_of
from toolwright.core.agents.agent import CHANNELS
from toolwright.core.concurrency import Supervision, is_cancelled
from toolwright.core.env.logs import internal_error, logger
from toolwright.core.errors import ContextTooLong, ModelError, ModelRefused, ModelUnavailable, ToolwrightError
from toolwright.core.hooks import Purpose
from toolwright.core.model import (
    NO_SETTINGS,
    AttemptStarted,
    Model,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    checked_response,
)
from toolwright.core.ports import Bus, Models
from toolwright.core.request_changes import summary
from toolwright.core.text import BEFORE_CUT, error_text, quantity
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes, ThreadLost
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.context.conversation import Frame, RequestParts, as_read
from toolwright.runtime.context.execution import Cancellation
from toolwright.runtime.files import FileKeeper
from toolwright.runtime.hooks import HookRunner, SentBack, record
from toolwright.runtime.model.answer import has_called
from toolwright.runtime.model.context_window import (
    MAX_EDITS,
    ContextWindows,
    ConversationChanged,
    formed,
)
from toolwright.runtime.model.stream import AnswerStream
from toolwright.runtime.prompts import (
    Section,
    SystemPrompts,
    bare_prompt,
    prompt,
    sections,
    state_parts,
)
from toolwright.runtime.threads.inbox import preview

SLACK = (
    0.01  # fraction of the allowed silence: the timer is reset no more often, and fires at most so much later
)


log = logger("toolwright.models")
EDITED_TOO_OFTEN = "The conversation was changed repeatedly while it was shortened."
CLIENT_TIMEOUT = 600.0  # seconds of silence after which the providers' clients give up by themselves
CLIENT_LEAD = (
    0.2  # seconds that a client with the same limit has to report it, so that the request is sent again
)
MAX_HELD = 0.02  # seconds for which a long answer is read without letting others run


def _log_answer(active: ActiveAgent, model: str, response: ModelResponse, seconds: float) -> None:
    log.info(
        "%s answered the agent %r in %.1f s: %d tokens in, %d out, %s.",
        model, active.agent.name, seconds, response.usage.input_tokens, response.usage.output_tokens,
        quantity(len(response.calls), "call"),
    )  # fmt: skip


class AnswerLimit:
    """Ends an answer after a time without events, after a total time, or on an abort."""

    __slots__ = ("_abort", "_again", "_end", "_loop", "_reading", "_ring", "_silence", "_total")

    def __init__(self, silence: float, total: float, abort: Cancellation) -> None:
        self._reading: Supervision[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._silence, self._total = silence, total
        self._abort = abort
        self._ring = silence * (1 + SLACK) + CLIENT_LEAD
        now = self._loop.time()
        self._end = now + total
        self._again = now + silence * SLACK

    def begin(self, reading: "Supervision[Any]") -> None:
        """Apply the limit to this reading."""
        self._reading = reading
        reading.limit(min(self._loop.time() + self._ring, self._end))
        self._abort.within(reading)

    def progress(self, event: ModelEvent) -> bool:
        """Extend the silence limit after a model event. Return False if the answer was cut off."""
        assert self._reading is not None, "what makes progress has begun"
        if self._reading.cut_off is not None:
            return False
        now = self._loop.time()
        pause = event.pause if isinstance(event, AttemptStarted) else 0.0
        if (now >= self._again or pause) and not self._abort.aborted:
            self._again = now + pause + self._silence * SLACK
            self._reading.limit(min(now + pause + self._ring, self._end))
        return True

    def check(self) -> None:
        """Raise `ModelUnavailable` if the answer has taken too long, and was not aborted."""
        if self._abort.aborted:
            return
        if self._loop.time() >= self._end:
            raise ModelUnavailable(f"The model's answer was not complete after {self._total:g} s.")
        raise ModelUnavailable(f"The model sent nothing for {self._silence:g} s during its answer.")


class ModelRaised(Exception):
    """An error raised by a user-defined model that is not one of our errors; it has the original message."""


class ModelAnswers:
    """Sends requests to models. Nothing here commits except `windows`, which compact conversations.

    `timeout` and `request_timeout` are the limits of answers whose settings have none, see `ModelSettings`.
    """

    def __init__(
        self,
        models: Models,
        bus: Bus,
        files: FileKeeper,
        system_prompts: SystemPrompts,
        windows: ContextWindows,
        *,
        default_model: str | None,
        timeout: float,
        request_timeout: float,
        hooks: HookRunner,
    ) -> None:
        self.windows = windows
        self._hooks = hooks
        self._models = models
        self._bus = bus
        self._files = files
        self._system_prompts = system_prompts
        self._default_model = default_model
        self._timeout, self._request_timeout = timeout, request_timeout

    async def ask(self, context: RunContext, changes: Changes) -> ModelResponse | SentBack | None:
        """Return the answer in the current conversation, or None if the run was cancelled.

        The answer is streamed if the conversation is the thread's own. `changes` receives the messages that the request
        adds to the journal, and the verdicts of hooks about the request and the answer, one of which can send the
        answer back. Raises a `ToolwrightError`, or `ModelRaised`.
        """
        try:
            frame, active = context.frame, context.active
            text = active.prompt.prompt
            if not isinstance(text, str):
                text = frame.text or ""  # what its function has returned for the run
            system = text if not active.instructions else bare_prompt(active, text)
            if frame.call is None:
                frame.state_parts = None
                if active.agent.toolkits:
                    system, frame.state_parts = await self._system(context, active, changes)
            if active.is_dynamic and frame.told is not None:
                frame.state_parts = {**frame.told, **(frame.state_parts or {})}
            for _ in range(MAX_EDITS):
                request = self._request(context, frame, changes, system)
                try:
                    return await self._fitting(context, frame, context.active, request, changes)
                except ConversationChanged:
                    continue
            raise ModelUnavailable(EDITED_TOO_OFTEN)
        except (ToolwrightError, ThreadLost, ModelRaised):
            raise
        except Exception as error:
            raise internal_error("asking the model", error) from error

    async def _fitting(
        self,
        context: RunContext,
        frame: Frame,
        active: ActiveAgent,
        request: ModelRequest,
        changes: Changes,
    ) -> ModelResponse | SentBack | None:
        """Return the answer to the request, or to a shorter one if it is too long. Only the thread's own streams."""
        parts = frame.parts
        if parts is None or parts.active is not active:
            model = await self._model(active)
            budget = self.windows.budget(context, frame, active, model)
            parts = frame.parts = RequestParts(active, model, budget)
        model = parts.model
        request = await self.windows.fit(context, frame, parts, request, self._summarizing)
        attempt = 1
        effects, events = changes.effects, [*changes.events]
        while True:
            stream, active = None, context.active  # a compacted conversation has an additional tool
            if frame is context.root:
                stream = AnswerStream(context, self._bus, active.by_name)
            try:
                compacted = frame.sent is not None and frame.sent.compaction > 0
                sent = request if active.form is None else formed(context, request)
                if active.hooks is not None and active.hooks.before_model:
                    record(changes, context.other_verdicts)
                    context.other_verdicts = []
                    sent = await self._before_model(context, frame, changes, sent)
                response = await self._answer(context, model, sent, stream, compacted=compacted)
                if (attempt > 1 or frame.is_over) and response is not None:
                    self.windows.accepted(frame, active, model)
                if active.hooks is not None and active.hooks.after_model and response is not None:
                    return await self._after_model(context, changes, response, stream)
                return response
            except ContextTooLong as refused:
                # The verdicts about a request that is not answered are left out.
                changes.effects, changes.events = effects, [*events]
                tell = None
                if frame is context.root and CHANNELS in active.agent.toolkits:
                    tell = partial(self._state_parts, context, active)
                request = await self.windows.refit(
                    context, frame, model, request, self._summarizing, refused, attempt, tell
                )
                attempt += 1
            finally:
                if stream is not None:
                    stream.close()

    async def _before_model(
        self, context: RunContext, frame: Frame, changes: Changes, request: ModelRequest
    ) -> ModelRequest:
        """Return the request as the hooks have changed it. The change is recorded with the answer."""
        after, rows = await self._hooks.before_model(context, request, "answer")
        if after is not request:
            self.windows.records.record_change(context, frame, request, after)
            last = max(place for place, row in enumerate(rows) if row.ruling == "changed")
            rows[last] = changed(rows[last], details=summary(request, after))
        record(changes, rows)
        return after

    async def _after_model(
        self, context: RunContext, changes: Changes, response: ModelResponse, stream: AnswerStream | None
    ) -> ModelResponse | SentBack:
        """Return the answer as the hooks have changed it, or sent it back. A changed text is shown again."""
        verdict, rows = await self._hooks.after_model(context, response)
        record(changes, rows)
        if stream is not None:
            stream.resolve(None if isinstance(verdict, SentBack) else verdict.text, response.text)
        return verdict

    async def _summarizing(
        self, context: RunContext, is_awaited: bool, model: Model, request: ModelRequest
    ) -> ModelResponse | None:
        """Return the answer of a model that writes a summary, within the time of the run if the run waits for it.

        The hooks of the run's agent see the request as well.
        """
        request = await self._beside(context, request, "summary")
        return await self._answer(context if is_awaited else None, model, request, None)

    async def sample(self, context: RunContext, request: ModelRequest) -> ModelResponse | None:
        """Return the answer of the active agent's model to a handler's request, as its hooks have changed it."""
        return await self.ask_beside(context, await self._beside(context, request, "sample"))

    async def _beside(self, context: RunContext, request: ModelRequest, purpose: Purpose) -> ModelRequest:
        """Return a request beside the conversation as the hooks have changed it."""
        hooks = context.active.hooks
        if hooks is not None and hooks.before_model:
            request, rows = await self._hooks.before_model(context, request, purpose)
            context.other_verdicts += rows
        return request

    async def ask_beside(
        self, context: RunContext, request: ModelRequest, model: object = None
    ) -> ModelResponse | None:
        """Return the answer to a separate request, or None if the run was cancelled.

        It is that of `model`, a name or an object, by default that of the active agent.
        """
        chosen = await (self._model(context.active) if model is None else self._models(model))
        return await self._answer(context, chosen, request, None)

    def _request(self, context: RunContext, frame: Frame, changes: Changes, system: str) -> ModelRequest:
        """Return the request for the next step of the conversation."""
        active, number = context.active, context.run.step_count + 1
        shown = frame.shown(context.side)
        # not copied without need: the request has a tuple of its own
        conversation = [*shown, *changes.messages] if changes.messages else shown
        messages = as_read(conversation, active, is_arranged=not frame.mixed, seen=frame.heard)
        turn = number
        if frame.call is not None:
            number = turn = frame.turns + 1
        elif context.speaker is not None:
            turn = steps_of(context.speaker, frame.messages, context.run) + 1
            number = turn if _alone(active) else number
        form, choice = active.form, active.prompt.tool_choice
        if choice == "required" and has_called(frame.messages, context.run.id, context.by):
            choice = "auto"
        return ModelRequest(
            messages=tuple(messages),
            system=system,
            tools=active.tools.model_definitions,
            tool_choice=choice,
            step=number,
            who=active.who,
            load=self._files.load,
            reasoning=active.prompt.reasoning,
            turn=turn,
            answer=None if form is None else form.schema,
            settings=active.settings,
            state=None if frame.state_parts is None else frame.report(active.agent_id, messages),
        )

    async def _answer(
        self,
        context: RunContext | None,
        model: Model,
        request: ModelRequest,
        stream: AnswerStream | None,
        *,
        compacted: bool = False,
    ) -> ModelResponse | None:
        """Return the answer, or None if its run was cancelled. Raises `ModelUnavailable` if it takes too long."""
        own = request.settings or NO_SETTINGS
        silence, total = own.timeout or self._timeout, own.request_timeout or self._request_timeout
        if own.timeout is None and silence > CLIENT_TIMEOUT:
            request = changed(request, settings=changed(own, timeout=silence))
        abort = Cancellation() if context is None else context.abort
        if context is not None and context.trace is not None:
            model = context.trace.model(model, context.frame.id, compacted)
        if context is not None and context.time_limit is not None:
            total = min(total, context.seconds_left())
        limit = AnswerLimit(silence, total, abort)
        reading = Supervision(_read(model, request, limit, stream, context), model.name)
        limit.begin(reading)
        began = asyncio.get_running_loop().time()
        try:
            if not await reading.end():
                limit.check()
                return None
            try:
                response, error = reading.result()
            except GeneratorExit as raised:  # raised by the model: it would end the run's own coroutine
                raise ModelRaised(error_text(raised)) from raised
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise ModelError("The model cancelled its own answer.") from error
        finally:
            abort.left(reading)
        if error is not None:
            raise error
        if response is None:
            raise ModelError("The model ended its answer without a response.")
        response = checked_response(response, model.name)
        if context is not None and log.isEnabledFor(logging.INFO):
            _log_answer(context.active, model.name, response, asyncio.get_running_loop().time() - began)
        return response

    async def _system(
        self, context: RunContext, active: ActiveAgent, changes: Changes
    ) -> tuple[str, Mapping[str, str]]:
        """Return the system prompt of an agent with toolkits, and the parts of its state by name.

        The agent leaves its space if it may no longer be in it (D10).
        """
        await context.space.check(changes, active)
        parts = await self._sections(
            context, active, self.windows.most_tokens(active, await self._model(active))
        )
        return prompt([each for each in parts if not each.changes]), state_parts(parts)

    async def _state_parts(self, context: RunContext, active: ActiveAgent, most: int) -> Mapping[str, str]:
        """Return the parts of the agent's state for a request of at most `most` tokens."""
        told = context.root.told if active.is_dynamic else None
        return {**(told or {}), **state_parts(await self._sections(context, active, most))}

    async def _sections(
        self, context: RunContext, active: ActiveAgent, most: int | None
    ) -> Sequence[Section]:
        reach = await context.space.reach(active.agent)
        agent_state = await context.retry_until_available(
            lambda: self._system_prompts.state_for(active, reach, context.space.places)
        )
        text = None if isinstance(active.prompt.prompt, str) else context.root.text or ""
        parts = sections(active, agent_state, context.space.space_id, most, text)
        if active.agent.inbox_preview:
            waiting = [event for event in context.inbox.values() if event.run_id != context.run.id]
            parts.append(
                Section(name="inbox", text=preview(waiting, agent_state.members) or "", changes=True)
            )
        return parts

    async def most_tokens(self, active: ActiveAgent) -> int | None:
        """Return the maximum tokens of a request to the agent's model, or None if it is unknown."""
        try:
            return self.windows.most_tokens(active, await self._model(active))
        except ToolwrightError:  # a run reports why there is no model
            return self.windows.most_tokens(active, None)

    async def _model(self, active: ActiveAgent) -> Model:
        model = active.model if active.model is not None else self._default_model
        if model is None:
            raise ModelRefused(
                f"The agent {active.agent.name!r} has no model: name one in its prompt, or set TOOLWRIGHT_MODEL."
            )
        return await self._models(model)


async def _read(
    model: Model,
    request: ModelRequest,
    limit: AnswerLimit,
    stream: AnswerStream | None,
    context: RunContext | None,
) -> tuple[ModelResponse | None, BaseException | None]:
    """Return the model's answer, streamed while it arrives, and the error that would end the event loop if raised."""
    response: ModelResponse | None = None
    reasoning: list[str] = []
    loop = asyncio.get_running_loop()
    pause_at = loop.time() + MAX_HELD
    if context is not None:
        BEFORE_CUT.set(context.redact)  # for the provider's errors; this task ends with the answer
    try:
        async with aclosing(model.respond(request)) as events:
            async for event in events:
                if not limit.progress(event):
                    break
                if loop.time() >= pause_at:  # events that have arrived already are read without a pause
                    await asyncio.sleep(0)
                    pause_at = loop.time() + MAX_HELD
                if isinstance(event, ModelResponse):
                    response = event
                elif isinstance(event, ReasoningDelta):
                    reasoning.append(event.text)
                elif isinstance(event, AttemptStarted):
                    reasoning.clear()
                if stream is not None:
                    try:
                        if response is event:
                            stream.finish()
                        else:
                            stream.show(event)  # type: ignore[arg-type]  # the response is the last event
                    except Exception as error:
                        raise internal_error("showing the model's answer", error) from error
    except KeyboardInterrupt as error:
        return None, error
    except ToolwrightError:
        raise
    except (Exception, SystemExit) as error:  # a user-defined model can raise anything
        raise ModelRaised(error_text(error)) from error
    if (
        reasoning and response is not None and not response.reasoning
    ):  # a user-defined model has only streamed it
        response = changed(response, reasoning="".join(reasoning))
    return response, None


def _alone(active: ActiveAgent) -> bool:
    """Return whether no other side of the thread uses this prompt's model."""
    others = [side.model for name, side in active.sides.items() if name != active.side]
    return active.model is not None and not isinstance(active.model, str) and active.model not in others
