"""The model's part of a step: what it is asked, and its answer."""

import asyncio
from contextlib import aclosing
from typing import Any

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.turns import steps_of
from toolwright.core.concurrency import is_cancelled
from toolwright.core.errors import ModelError, ModelRefused, ModelUnavailable
from toolwright.core.model import Model, ModelRequest, ModelResponse
from toolwright.core.ports import Bus, Models
from toolwright.core.supervision import Supervision, catch_exit
from toolwright.core.threads.message import Message
from toolwright.runtime.agents.system_prompt import Homes, Section, prompt, sections
from toolwright.runtime.files.files import FileKeeper
from toolwright.runtime.hold.execution import Abort
from toolwright.runtime.hold.frame import Frame
from toolwright.runtime.hold.heard import arranged, heard_by, prompted
from toolwright.runtime.hold.hold import Hold
from toolwright.runtime.hold.move import Move
from toolwright.runtime.model.stream import AnswerStream
from toolwright.runtime.threads.inbox import preview

SLACK = 0.01  # of the silence that is allowed: the timer is set anew no more often, and rings so much later


class AnswerLimit:
    """Ends an answer after so many seconds of silence, when the whole of it takes too long, or by an abort."""

    __slots__ = ("_abort", "_again", "_end", "_loop", "_reading", "_ring", "_silence", "_whole")

    def __init__(self, silence: float, whole: float, abort: Abort) -> None:
        self._reading: Supervision[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self._silence, self._whole = silence, whole
        self._abort = abort
        self._ring = silence * (1 + SLACK)
        now = self._loop.time()
        self._end = now + whole
        self._again = now + silence * SLACK

    def begin(self, reading: "Supervision[Any]") -> None:
        """What is limited is this."""
        self._reading = reading
        reading.limit(min(self._loop.time() + self._ring, self._end))
        self._abort.within(reading)

    def progress(self) -> bool:
        """The model has said something; whether anybody still hears it."""
        assert self._reading is not None, "what makes progress has begun"
        if self._reading.cut_off is not None:
            return False
        now = self._loop.time()
        if now >= self._again and not self._abort.aborted:
            self._again = now + self._silence * SLACK
            self._reading.limit(min(now + self._ring, self._end))
        return True

    def over(self) -> None:
        """The answer is there, or will not be."""
        if self._reading is not None:
            self._abort.left(self._reading)

    def check(self) -> None:
        """Raise `ModelUnavailable` if the answer has taken too long, and was not aborted."""
        if self._abort.aborted:
            return
        if self._loop.time() >= self._end:
            raise ModelUnavailable(f"The model's answer was not complete after {self._whole:g} s.")
        raise ModelUnavailable(f"The model was silent for {self._silence:g} s within its answer.")


ANSWER_LIMITS = (600.0, 3600.0)
"""Seconds that a model may be silent within an answer, and that a whole answer may take."""


class Asking:
    """Asks models for answers; nothing here commits."""

    def __init__(
        self,
        models: Models,
        bus: Bus,
        files: FileKeeper,
        homes: Homes,
        *,
        default_model: str | None,
        answer_limits: tuple[float, float] = ANSWER_LIMITS,
    ) -> None:
        self._models = models
        self._bus = bus
        self._files = files
        self._homes = homes
        self._default_model = default_model
        self._answer_limits = answer_limits

    async def ask(self, hold: Hold, move: Move) -> ModelResponse | None:
        """The answer in the thread's own conversation, shown while it is generated; None if the run was cancelled.

        What the model is told before it answers, `move` gets to contain.
        """
        voice = hold.voice
        number = hold.run.step_count + 1
        system = hold.redactor.text(await self._system(hold, voice, move))
        messages = [*hold.root.messages, *move.messages]
        messages = _heard(voice, arranged(messages) if hold.root.mixed else messages)
        turn = steps_of(hold.speaker, hold.root.messages, hold.run) + 1
        request = self._request(voice, messages, system, turn if _alone(hold) else number, turn)
        stream = AnswerStream(hold, self._bus, number, voice.by_name, await hold.where.unspoken())
        try:
            return await self._answer(hold, voice, request, stream)
        finally:
            stream.close()

    async def ask_within(self, hold: Hold, frame: Frame) -> ModelResponse | None:
        """The answer within a prompt tool; it is shown to nobody."""
        voice = hold.voice
        system = hold.redactor.text(voice.system)
        number = frame.turns + 1
        request = self._request(voice, [*frame.opening, *frame.messages], system, number, number)
        return await self._answer(hold, voice, request, None)

    def _request(
        self, voice: ActiveAgent, messages: list[Message], system: str, number: int, turn: int
    ) -> ModelRequest:
        return ModelRequest(
            messages=tuple(messages),
            system=system,
            tools=voice.tools.model_definitions,
            tool_choice=voice.prompt.tool_choice,
            step=number,
            who=voice.who,
            load=self._files.load,
            reasoning=voice.prompt.reasoning,
            turn=turn,
        )

    async def _answer(
        self, hold: Hold, voice: ActiveAgent, request: ModelRequest, stream: AnswerStream | None
    ) -> ModelResponse | None:
        model = await self._model(voice)
        limit = AnswerLimit(*self._answer_limits, hold.abort)
        reading = Supervision(catch_exit(_read(model, request, limit, stream)), model.name)
        limit.begin(reading)
        try:
            if not await reading.end():
                limit.check()
                return None
            response, error = reading.result()
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise ModelError("The model was cancelled by itself.") from error
        finally:
            limit.over()
        if error is not None:
            raise error
        if response is None:
            raise ModelError("The model ended its answer without a response.")
        return response

    async def _system(self, hold: Hold, voice: ActiveAgent, move: Move) -> str:
        """What the agent is told at this step. A space that it may be in no longer it is put out of (D10)."""
        if not voice.agent.toolkits:
            return voice.system
        await hold.where.check(move, hold.author)
        parts = sections(voice, await hold.insist(lambda: self._homes.of(voice)), hold.where.space_id)
        if voice.agent.inbox_preview:
            waiting = [event for event in hold.inbox.values() if event.run_id != hold.run.id]
            parts.append(Section(name="inbox", text=preview(waiting) or ""))
        return prompt(parts)

    async def _model(self, voice: ActiveAgent) -> Model:
        model = voice.model if voice.model is not None else self._default_model
        if model is None:
            raise ModelRefused(
                f"The agent {voice.agent.name!r} has no model: name one in its prompt, or set TOOLWRIGHT_MODEL."
            )
        return await self._models(model)


async def _read(
    model: Model, request: ModelRequest, limit: AnswerLimit, stream: AnswerStream | None
) -> ModelResponse | None:
    """The model's answer, shown as it comes, as long as anybody waits for it."""
    response: ModelResponse | None = None
    async with aclosing(model.respond(request)) as events:
        async for event in events:
            if not limit.progress():
                break
            if isinstance(event, ModelResponse):
                response = event
                if stream is not None:
                    stream.finish()
            elif stream is not None:
                stream.take(event)
    return response


def _alone(hold: Hold) -> bool:
    """Whether nobody else in the thread speaks through the model of this prompt."""
    voice = hold.voice
    others = [side.model for name, side in voice.sides.items() if name != voice.side]
    return voice.model is not None and not isinstance(voice.model, str) and voice.model not in others


def _heard(voice: ActiveAgent, messages: list[Message]) -> list[Message]:
    last = messages[-1] if messages else None
    if last is not None and last.role == "assistant" and last.side not in (None, voice.side):
        last = None  # the other side has spoken: that is heard as a user
    if len(voice.sides) > 1:
        messages = heard_by(voice.side, messages, voice.agent.sides)
    return prompted(messages, last)
