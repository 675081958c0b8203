"""Answers in progress: the streamed parts of a model's answer."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.event import Event
from toolwright.core.tools.tool_ui import ShownCall
from toolwright.web.console.runs.calls import CallLine
from toolwright.web.console.runs.timeline import CallFold
from toolwright.web.console.tool_ui.card import CallCard, component_of
from toolwright.web.console.tool_ui.parts import facts_of_stream
from toolwright.web.console.tool_ui.showing import draw_plain
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, plain_text

_STREAMS: Final = frozenset({"message.delta", "message.reasoning", "tool.streaming"})
Progress: TypeAlias = Callable[[str, JSONObject], Awaitable[object]]
"""Handler of a call's progress. Receives the call's id and the payload of its `tool.progress`."""


class StreamedAnswer:
    """An answer on the page while it is generated. A restarted attempt replaces the previous one."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._attempt = ""
        self._texts: dict[str, str] = {}
        self._calls: dict[str, CallFold] = {}
        self._cards: dict[str, CallCard] = {}
        self._element = box("div", "writing")
        self._labels: dict[str, Any] = {}  # labels of texts; untyped in NiceGUI

    def clear(self) -> None:
        """Remove the answer after it is complete or was abandoned."""
        self._attempt = ""
        self._texts.clear()
        self._calls.clear()
        self._cards.clear()
        self._labels.clear()
        self._element.clear()

    async def draw_all(self, events: Sequence[Event], progress: Progress) -> None:
        """Process a batch of events.

        Only the last state of each part is drawn. `progress` receives the progress of calls.
        """
        last = {str(each.payload.get("streamId")): each for each in events if each.type in _STREAMS}
        for event in events:
            if event.type == "tool.progress":
                await progress(str(event.payload.get("toolCallId")), event.payload)
            elif event.type in _STREAMS:
                if last[str(event.payload.get("streamId"))] is event or event.payload.get("truncated"):
                    await self.draw(event)
            elif _ends_answer(event):
                self.clear()

    async def draw(self, event: Event) -> None:
        """Append streamed text from a `message.delta`, `message.reasoning` or `tool.streaming` event."""
        stream_id, is_text = event.payload.get("streamId"), event.type != "tool.streaming"
        if not isinstance(stream_id, str):
            return
        is_shared = self._visit.is_service or bool(event.payload.get("reasoningShared"))
        if event.type == "message.reasoning" and not is_shared:
            return
        attempt = stream_id.rpartition(".")[0]
        if attempt != self._attempt:
            self.clear()
            self._attempt = attempt
        if is_text:
            self._grow(stream_id, event)
        else:
            await self._grow_call(stream_id, event)

    def _grow(self, stream_id: str, event: Event) -> None:
        text, delta = event.payload.get("text"), event.payload.get("delta")
        grown = text if isinstance(text, str) else self._texts.get(stream_id, "") + str(delta)
        self._texts[stream_id] = grown
        label = self._labels.get(stream_id)
        if label is None:
            is_answer = event.type == "message.delta"
            with self._element, box("div", "message streaming"):
                plain_text("✎", "span", "face agent").props["aria-hidden"] = "true"
                with box("div", "by"):
                    plain_text("writing …" if is_answer else "reasoning …", "span", "quiet small")
                with box("div", "body prose" if is_answer else "body quiet small"):
                    label = self._labels[stream_id] = plain_text("", "p")
        label.text = grown[-32_768:]

    async def _grow_call(self, stream_id: str, event: Event) -> None:
        if component_of(facts_of_stream(event.payload), self._visit.site.tool_uis) is not draw_plain:
            if stream_id not in self._cards:
                with self._element:
                    self._cards[stream_id] = CallCard(self._visit)
            self._cards[stream_id].stream(event.payload)
            return
        args: JSON = event.payload.get("partialArgs")
        call = ShownCall(
            id=stream_id,
            name=str(event.payload.get("toolName")),
            args=args if args is not None else event.payload.get("text"),
            status="streaming",
        )
        line = CallLine(call=call, status="writing")
        fold = self._calls.get(stream_id)
        if fold is None:
            with self._element:
                self._calls[stream_id] = CallFold(self._visit, line)
        else:
            await fold.show(line)


def _ends_answer(event: Event) -> bool:
    """Return whether the event completes the streamed answer or shows that it was abandoned."""
    message = event.payload.get("message")
    is_answer = event.type == "message" and isinstance(message, dict) and message.get("role") == "assistant"
    return is_answer or event.type.startswith("run.")
