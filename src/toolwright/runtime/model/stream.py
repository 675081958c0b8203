"""Live deltas of a model's answer: merged to 20 a second, never recorded, restarted when an attempt starts again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from toolwright.core.agents.agent import ENTER_SPACE, SEND_MESSAGE
from toolwright.core.json_value import JSONObject
from toolwright.core.model import AttemptStarted, CallDelta, ModelEvent, ReasoningDelta, TextDelta
from toolwright.core.ports import Bus
from toolwright.core.threads.event import EventType
from toolwright.core.tools.tool import Tool
from toolwright.runtime.context.context import RunContext
from toolwright.wire.event import live_event, tool_event
from toolwright.wire.text import partial_json

MAX_OF_A_NAME = 200  # characters
INTERVAL = 0.05  # seconds between two deltas of one stream
_TEXT, _REASONING = -1, -2  # indexes of these among the parts of an answer; calls have their own
# characters; a longer text is shown by its deltas only, and each delta has at most this length
MAX_SHOWN = 32 * 1024


@dataclass(slots=True)
class _Stream:
    """Text shown of one call."""

    call_id: str
    speech: bool
    shown: str = ""


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

    def show(self, index: int, name: str, arguments: str, delta: str) -> None:
        """Publish the arguments of a call received so far; `delta` is the new end of them."""
        stream = self._streams.get(index)
        begins = stream is None
        if stream is None:
            stream = _Stream(self._context.new_id("call"), self._speaks(name))
            self._streams[index] = stream
            self._context.stream_call(stream.call_id, self._space_id or "")
        if stream.speech:
            self._show_speech(stream, arguments)
            return
        if begins:
            started = tool_event("tool.started", stream.call_id, name)
            self._publish("tool.started", started.payload)
        if len(arguments) <= MAX_SHOWN:
            partial = partial_json(arguments)
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

    def _show_speech(self, stream: _Stream, arguments: str) -> None:
        partial = partial_json(arguments)
        text = partial.get("text") if isinstance(partial, dict) else None
        if not isinstance(text, str) or text == stream.shown or len(text) > MAX_SHOWN:
            return
        delta = text[len(stream.shown) :] if text.startswith(stream.shown) else text
        stream.shown = text
        payload: JSONObject = {"streamId": stream.call_id, "delta": delta, "text": text}
        self._publish("space.message.streaming", payload)

    def _publish(self, type_: EventType, payload: JSONObject) -> None:
        run, now = self._context.run, self._context.clock.now()
        self._bus.publish([live_event(type_, run, payload, now, self._space_id)])


class AnswerStream:
    """Publishes an answer while it is generated, to followers of its thread, its run or its space."""

    def __init__(self, context: RunContext, bus: Bus, tools: Mapping[str, Tool]) -> None:
        self._context = context
        self._bus = bus
        self._tools = tools
        self._step = context.run.step_count + 1
        self._is_shared = context.active.agent.reasoning == "everyone"
        self._whole = False
        self._parts: dict[int, _Part] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._attempt = ""
        self._in_space: SpaceStream | None = None  # set once there is something to show
        hooks = context.active.hooks
        self._held = hooks is not None and hooks.holds_text  # until the verdict

    def show(self, event: ModelEvent) -> None:
        """Publish one event of the model. The text so far is kept, because a follower can join later."""
        if self._in_space is None:
            self._in_space = SpaceStream(self._context, self._bus, self._tools)
        match event:
            case TextDelta():
                self._grow(_TEXT, "", event.text)
            case ReasoningDelta() if self._context.active.agent.reasoning != "nobody":
                self._grow(_REASONING, "", event.text)
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
        if self._timer is None and not self._held and self._wanted(self._in_space):
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._flush_in_time)

    def finish(self) -> None:
        """Note that the answer is complete."""
        self._whole = True

    def resolve(self, text: str | None, before: str) -> None:
        """Show the answer after the verdict of hooks: its text again if they have changed it, or the held text.

        Nothing more is shown of an answer that was sent back, for which `text` is None.
        """
        if self._in_space is None:
            return
        if text is None:
            self._parts.clear()
            return
        if text != before:
            if not self._held:
                self.close()
                self._attempt = ""
            calls = {index: part for index, part in self._parts.items() if index >= 0}
            self._parts.clear()
            self._grow(_TEXT, "", text)
            self._parts |= calls
        self._held = False
        if self._wanted(self._in_space):
            self._flush()

    def close(self) -> None:
        """Publish the rest. If the answer ended early, what was shown in its space is withdrawn."""
        if self._in_space is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._flush()
        if self._whole:
            self._context.call_ids = self._in_space.ids([index for index in self._parts if index >= 0])
        else:
            self._in_space.abort()

    def _wanted(self, in_space: SpaceStream) -> bool:
        return in_space.wanted or self._bus.wanted(self._context.thread.id, self._context.run.id)

    def _grow(self, index: int, name: str, text: str) -> None:
        part = self._parts.get(index)
        if part is None:
            part = self._parts[index] = _Part(name)
        part.fresh.append(text)

    def _flush_in_time(self) -> None:
        self._flush()
        unshown = any(part.fresh for part in self._parts.values())
        self._timer = (
            asyncio.get_running_loop().call_later(INTERVAL, self._flush_in_time) if unshown else None
        )

    def _flush(self) -> None:
        run, in_space = self._context.run, self._in_space
        assert in_space is not None, "something was said"
        if not self._attempt:
            self._attempt = self._context.new_id("stream")
        payloads: list[tuple[EventType, JSONObject]] = []
        for index, part in self._parts.items():
            delta = part.show(f"{self._attempt}.{index + 1}", self._step)
            if delta is None:
                continue
            if index == _REASONING:
                shared: JSONObject = {"reasoningShared": True} if self._is_shared else {}
                delta = "message.reasoning", delta[1] | shared
            payloads.append(delta)
            if in_space.wanted and in_space.takes(part.name):
                in_space.show(index, part.name, part.text, str(delta[1]["delta"]))
        now = self._context.clock.now()
        self._bus.publish([live_event(type_, run, payload, now) for type_, payload in payloads])


class _Part:
    """One stream of an answer: its text, or the arguments of one of its calls."""

    __slots__ = ("fresh", "name", "shown", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""  # the published text
        self.shown = False
        self.fresh: list[str] = []

    def show(self, stream_id: str, step: int) -> tuple[EventType, JSONObject] | None:
        """Return the next delta, or None if there is nothing new to show. What is beyond its length stays `fresh`."""
        if not self.fresh:
            return None
        fresh = "".join(self.fresh)
        delta = fresh[:MAX_SHOWN]
        self.fresh = [fresh[MAX_SHOWN:]] if len(fresh) > MAX_SHOWN else []
        if self.shown and not delta:
            return None
        self.shown, self.text = True, self.text + delta
        large = len(self.text) > MAX_SHOWN
        payload: JSONObject = {"streamId": stream_id, "stepNumber": step, "delta": delta}
        payload |= {"truncated": True} if large else {"text": self.text}
        if not self.name:
            return "message.delta", payload
        return "tool.streaming", payload | {
            "toolName": self.name[:MAX_OF_A_NAME],
            "partialArgs": None if large else partial_json(self.text),
        }
