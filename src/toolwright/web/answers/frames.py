"""Events as bytes: a frame is made once for all who read it under the same names."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Event
from toolwright.wire.event import event_json, frame
from toolwright.wire.space import channel_event_json

KEPT = 128  # frames: readers of the same events are seldom far apart

Names: TypeAlias = Literal["s3", "s4"]
"""Whose names events have."""
_RENDERINGS: Mapping[Names, Callable[[Event, str | None], JSONObject]] = {
    "s3": event_json,
    "s4": channel_event_json,
}


class Frames:
    """The frames of the newest events, under names of one kind."""

    def __init__(self, names: Names = "s3") -> None:
        self._render = _RENDERINGS[names]
        self._frames: dict[tuple[str | None, int] | int, tuple[Event, bytes]] = {}

    def of(self, event: Event) -> bytes:
        """The event's frame. A recorded event is known by its number, a live one by being the same object."""
        whose = event.thread_id if event.space_id is None else None  # all spaces are numbered together
        key = id(event) if event.n is None else (whose, event.n)
        entry = self._frames.get(key)
        if entry is not None and (event.n is not None or entry[0] is event):
            return entry[1]
        made = self.made(event)
        if len(self._frames) >= KEPT:
            del self._frames[next(iter(self._frames))]
        self._frames[key] = (event, made)
        return made

    def made(self, event: Event) -> bytes:
        """The event's frame, made again, and not kept."""
        return frame(self._render(event, None if event.agent is None else entity_id_of(event.agent)))
