"""Live deltas of a model's answer: merged to 20 a second, never recorded, redrawn when an attempt begins anew."""

import asyncio

from pydantic_core import from_json

from toolwright.core.event import Event
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import AttemptStarted, CallDelta, ModelEvent, TextDelta
from toolwright.core.ports import Bus
from toolwright.runtime.hold import Hold

INTERVAL = 0.05  # seconds between two deltas of one stream

_TEXT = -1  # the place of the text among the parts of an answer; calls have theirs


class AnswerStream:
    """Shows an answer while it is being generated, to whoever follows its thread or run."""

    def __init__(self, hold: Hold, bus: Bus, step: int) -> None:
        self._hold = hold
        self._bus = bus
        self._step = step
        self._parts: dict[int, _Part] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._attempt = ""

    def take(self, event: ModelEvent) -> None:
        """Show one event of the model. All of it is kept, since a follower may come in the middle."""
        match event:
            case TextDelta():
                self._grow(_TEXT, "", event.text)
            case CallDelta():
                self._grow(event.index, event.name, event.arguments)
            case AttemptStarted():
                self.close()
                self._parts.clear()
                self._attempt = ""
                return
            case _:
                return
        if self._timer is None and self._bus.wanted(self._hold.thread.id, self._hold.run.id):
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._flush)

    def close(self) -> None:
        """Show what is still held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()

    def _grow(self, index: int, name: str, text: str) -> None:
        part = self._parts.get(index)
        if part is None:
            part = self._parts[index] = _Part(name)
        part.fresh.append(text)

    def _flush(self) -> None:
        self._timer = None
        run = self._hold.run
        if not self._attempt:
            self._attempt = self._hold.new_id("stream")
        shown = [
            part.show(f"{self._attempt}.{index + 1}", self._step)
            for index, part in self._parts.items()
            if part.fresh
        ]
        self._bus.publish(
            [
                Event(
                    thread_id=run.thread_id,
                    run_id=run.id,
                    agent=run.agent,
                    type=type_,
                    payload=payload,
                    at=self._hold.clock.now(),
                )
                for type_, payload in shown
            ]
        )


class _Part:
    """One stream of an answer: its text, or the arguments of one of its calls."""

    __slots__ = ("fresh", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.fresh: list[str] = []

    def show(self, stream_id: str, step: int) -> tuple[str, JSONObject]:
        delta = "".join(self.fresh)
        self.fresh.clear()
        self.text += delta
        payload: JSONObject = {
            "streamId": stream_id,
            "stepNumber": step,
            "delta": delta,
            "text": self.text,
        }
        if not self.name:
            return "message.delta", payload
        return "tool.streaming", payload | {"toolName": self.name, "partialArgs": _partial(self.text)}


def _partial(text: str) -> JSON:
    """The arguments as far as they are readable, best effort."""
    try:
        return from_json(text, allow_partial="trailing-strings") if text else {}
    except ValueError:
        return None
