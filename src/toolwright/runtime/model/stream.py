"""Live deltas of a model's answer: merged to 20 a second, never recorded, restarted when an attempt starts again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from toolwright.core.agents.agent import ENTER_SPACE, SEND_MESSAGE
from toolwright.core.env.redact import NOTHING, Redactor
from toolwright.core.json_value import JSONObject
from toolwright.core.model import AttemptStarted, CallDelta, ModelEvent, TextDelta
from toolwright.core.ports import Bus
from toolwright.core.text import brief
from toolwright.core.threads.event import EventType
from toolwright.core.tools.tool import Tool
from toolwright.runtime.context.context import RunContext
from toolwright.runtime.env import clean_name
from toolwright.wire.event import live_event, tool_event
from toolwright.wire.text import partial_json


@dataclass(slots=True)
class _Stream:
    """Text shown of one call."""

    call_id: str
    speech: bool
    shown: str = ""


# characters; a longer text is shown by its deltas only, and each delta is cut to this length
MOST_SHOWN = 32 * 1024


class SpaceStream:
    """Publishes the text of `send_message`, and the arguments of visible calls, to followers of the space.

    A stream has the id of its later call. The stream of a call that is not made is withdrawn: `aborted`.
    """

    def __init__(self, context: RunContext, bus: Bus, tools: Mapping[str, Tool]) -> None:
        self._context = context
        self._bus = bus
        self._tools = tools
        self._enters = ENTER_SPACE in tools
        self._space_id = context.space.space_id if self._enters else context.space.trigger_space_id
        self._streams: dict[int, _Stream] = {}

    @property
    def wanted(self) -> bool:
        """Return whether the space has followers."""
        return self._space_id is not None and self._bus.wanted_in(self._space_id)

    def takes(self, name: str) -> bool:
        """Return whether calls of that tool are shown in the space."""
        tool = self._tools.get(name)
        return self._speaks(name) or (tool is not None and tool.visible)

    def show(self, index: int, name: str, arguments: str, delta: str, redactor: Redactor) -> None:
        """Publish the arguments of a call received so far, redacted; `delta` is the new end of them."""
        stream = self._streams.get(index)
        begins = stream is None
        if stream is None:
            stream = _Stream(self._context.new_id("call"), self._speaks(name))
            self._streams[index] = stream
            self._context.stream_call(stream.call_id, self._space_id or "")
        if stream.speech:
            self._show_speech(stream, arguments, redactor)
            return
        if begins:
            started = tool_event("tool.started", stream.call_id, name)
            self._publish("tool.started", started.payload)
        if len(arguments) <= MOST_SHOWN:
            partial = redactor.json(partial_json(arguments))
            payload: JSONObject = {"delta": delta, "text": arguments, "partialArgs": partial}
            self._publish("tool.streaming", {"streamId": stream.call_id, "toolName": name, **payload})

    def ids(self, indexes: list[int]) -> dict[int, str]:
        """Return the ids of the shown calls, by position in the answer, whose parts have these indexes."""
        return {
            place: self._streams[index].call_id
            for place, index in enumerate(sorted(indexes))
            if index in self._streams
        }

    def abort(self) -> None:
        """Withdraw the shown parts of an answer that ended early."""
        for stream in self._streams.values():
            self._context.abort_stream(stream.call_id)
            self._publish("space.message.aborted", {"streamId": stream.call_id})
        self._streams.clear()

    def _speaks(self, name: str) -> bool:
        return self._enters and name == SEND_MESSAGE

    def _show_speech(self, stream: _Stream, arguments: str, redactor: Redactor) -> None:
        partial = partial_json(arguments)
        spoken = partial.get("text") if isinstance(partial, dict) else None
        if not isinstance(spoken, str):
            return
        text = _redacted_text(spoken, redactor)
        if text == stream.shown or len(text) > MOST_SHOWN:
            return
        delta = text[len(stream.shown) :] if text.startswith(stream.shown) else text
        stream.shown = text
        payload: JSONObject = {"streamId": stream.call_id, "delta": delta, "text": text}
        self._publish("space.message.streaming", payload)

    def _publish(self, type_: EventType, payload: JSONObject) -> None:
        run, now = self._context.run, self._context.clock.now()
        self._bus.publish([live_event(type_, run, payload, now, self._space_id)])


def _redacted_text(text: str, redactor: Redactor) -> str:
    """Return the redacted text, also for secrets that the JSON had escaped."""
    return redactor.so_far(text)[0] if redactor else text


INTERVAL = 0.05  # seconds between two deltas of one stream

_TEXT = -1  # the index of the text among the parts of an answer; calls have their own


class AnswerStream:
    """Publishes an answer while it is generated, to followers of its thread, its run or its space.

    It is redacted for the secrets of the thread and, in its space, for the `unspoken` secrets.
    """

    def __init__(
        self, context: RunContext, bus: Bus, tools: Mapping[str, Tool], unspoken: Redactor = NOTHING
    ) -> None:
        self._context = context
        self._bus = bus
        self._tools = tools
        self._step = context.run.step_count + 1
        self._whole = False
        self._parts: dict[int, _Part] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._attempt = ""
        self._in_space: SpaceStream | None = None  # set once there is something to show
        self._unspoken = unspoken
        self._run_redactor, self._redactor_of_all = NOTHING, unspoken

    def show(self, event: ModelEvent) -> None:
        """Publish one event of the model. The text so far is kept, because a follower can join later."""
        if self._in_space is None:
            self._in_space = SpaceStream(self._context, self._bus, self._tools)
        match event:
            case TextDelta():
                self._grow(_TEXT, "", event.text)
            case CallDelta():
                self._grow(event.index, event.name, event.arguments)
            case AttemptStarted():
                self.close()
                self._in_space = SpaceStream(self._context, self._bus, self._tools)
                self._parts.clear()
                self._attempt = ""
                return
            case _:
                return
        if self._timer is None and self._wanted(self._in_space):
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._flush)

    def finish(self) -> None:
        """Publish the held-back rest of a complete answer."""
        self._whole = True
        for part in self._parts.values():
            part.whole = True

    def close(self) -> None:
        """Publish the rest. If the answer ended early, a text that could be the start of a secret is not shown."""
        if self._in_space is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if self._timer is not None or any(part.whole and part.held for part in self._parts.values()):
            self._flush()
        if self._whole:
            self._context.call_ids = self._in_space.ids([index for index in self._parts if index != _TEXT])
        else:
            self._in_space.abort()

    @property
    def _redactor(self) -> Redactor:
        """The redactor of all secrets that must not be shown. A run can learn more secrets while it executes."""
        if self._run_redactor is not self._context.redactor:
            self._run_redactor = self._context.redactor
            self._redactor_of_all = self._run_redactor.with_secrets(self._unspoken.secrets)
        return self._redactor_of_all

    def _wanted(self, in_space: SpaceStream) -> bool:
        return in_space.wanted or self._bus.wanted(self._context.thread.id, self._context.run.id)

    def _grow(self, index: int, name: str, text: str) -> None:
        part = self._parts.get(index)
        if part is None:
            part = self._parts[index] = _Part(clean_name(name, self._context.redactor, self._tools))
        part.fresh.append(text)

    def _flush(self) -> None:
        self._timer = None
        run, in_space = self._context.run, self._in_space
        assert in_space is not None, "something was said"
        if not self._attempt:
            self._attempt = self._context.new_id("stream")
        redactor = self._redactor
        payloads: list[tuple[EventType, JSONObject]] = []
        for index, part in self._parts.items():
            delta = part.show(f"{self._attempt}.{index + 1}", self._step, redactor)
            if delta is None:
                continue
            payloads.append(delta)
            if in_space.wanted and in_space.takes(part.name):
                in_space.show(index, part.name, part.text, str(delta[1]["delta"]), redactor)
        now = self._context.clock.now()
        self._bus.publish([live_event(type_, run, payload, now) for type_, payload in payloads])


class _Part:
    """One stream of an answer: its text, or the arguments of one of its calls.

    A text that could be the start of a secret is held back until more text arrives or the part is complete.
    """

    __slots__ = ("came", "fresh", "held", "name", "shown", "text", "whole")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""  # the published text
        self.came = ""
        self.whole = False
        self.held = False
        self.shown = False
        self.fresh: list[str] = []

    def show(self, stream_id: str, step: int, redactor: Redactor) -> tuple[EventType, JSONObject] | None:
        """Return the next delta, or None if there is nothing new to show."""
        if not self.fresh and not (self.whole and self.held):
            return None
        delta = self._grown(redactor)
        if self.shown and not delta:
            return None
        self.shown = True
        large = len(self.text) > MOST_SHOWN
        payload: JSONObject = {"streamId": stream_id, "stepNumber": step, "delta": delta}
        payload |= {"truncated": True} if large else {"text": self.text}
        if len(delta) > MOST_SHOWN:
            payload["delta"] = delta[:MOST_SHOWN]
        if not self.name:
            return "message.delta", payload
        return "tool.streaming", payload | {
            "toolName": brief(self.name, 200),
            "partialArgs": None if large else redactor.json(partial_json(self.text)),
        }

    def _grown(self, redactor: Redactor) -> str:
        fresh = "".join(self.fresh)
        self.fresh.clear()
        if not redactor:
            self.text = self.came = self.text + fresh
            return fresh
        self.came += fresh
        before = self.text
        self.text, held = (redactor.text(self.came), 0) if self.whole else redactor.so_far(self.came)
        self.held = held > 0
        return self.text[len(before) :] if self.text.startswith(before) else self.text
