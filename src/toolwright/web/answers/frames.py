"""Events as bytes: a frame is made once for all who read it."""

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.threads.event import Event
from toolwright.wire.event import event_json, frame

KEPT = 128  # frames: readers of the same events are seldom far apart


class Frames:
    """The frames of the newest events."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str | None, int] | int, tuple[Event, bytes]] = {}

    def of(self, event: Event) -> bytes:
        """The event's frame. A recorded event is known by its number, a live one by being the same object."""
        whose = event.thread_id if event.space_id is None else None  # all spaces are numbered together
        key = id(event) if event.n is None else (whose, event.n)
        entry = self._frames.get(key)
        if entry is not None and (event.n is not None or entry[0] is event):
            return entry[1]
        made = frame_of(event)
        if len(self._frames) >= KEPT:
            del self._frames[next(iter(self._frames))]
        self._frames[key] = (event, made)
        return made


def frame_of(event: Event) -> bytes:
    """The event's frame, made anew."""
    entity_id = None if event.agent is None else entity_id_of(event.agent)
    return frame(event_json(event, entity_id))
