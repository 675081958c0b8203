"""Live deltas of what an agent is about to say and to show in a space (S3 "Streaming Events", API §4)."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolwright.core.env.redact import Redactor
from toolwright.core.json_value import JSONObject
from toolwright.core.ports import Bus
from toolwright.core.threads.event import EventType
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolkits import ENTER_SPACE, SEND_MESSAGE
from toolwright.runtime.context.context import RunContext
from toolwright.wire.event import live_event, tool_event
from toolwright.wire.text import partial_json

MOST_SHOWN = 32 * 1024  # characters of one stream


@dataclass(slots=True)
class _Stream:
    """Text shown of one call."""

    call_id: str
    speech: bool
    shown: str = ""


class SpaceStream:
    """Shows the words of `send_message`, and the arguments of visible calls, to those who follow the space.

    A stream has the id that its call will have. One whose call comes to nothing is taken back: `aborted`.
    """

    def __init__(self, context: RunContext, bus: Bus, tools: Mapping[str, Tool]) -> None:
        self._context = context
        self._bus = bus
        self._tools = tools
        self._enters = ENTER_SPACE in tools
        self._space_id = context.where.space_id if self._enters else context.where.trigger_space_id
        self._streams: dict[int, _Stream] = {}

    @property
    def wanted(self) -> bool:
        """Return whether anybody follows the space that the agent is in."""
        return self._space_id is not None and self._bus.wanted_in(self._space_id)

    def takes(self, name: str) -> bool:
        """Return whether calls of that tool are seen in the space."""
        tool = self._tools.get(name)
        return self._speaks(name) or (tool is not None and tool.visible)

    def show(self, index: int, name: str, arguments: str, delta: str, redactor: Redactor) -> None:
        """The arguments of a call have grown, `delta` at their end. Nothing that the redactor knows is in them."""
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
        """The ids of those calls that were shown, by their places in the answer, whose parts have these indexes."""
        return {
            place: self._streams[index].call_id
            for place, index in enumerate(sorted(indexes))
            if index in self._streams
        }

    def abort(self) -> None:
        """The answer broke off: what was shown of it is taken back."""
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
    """The words without secrets, also those that JSON had spelled in another way."""
    return redactor.so_far(text)[0] if redactor else text
