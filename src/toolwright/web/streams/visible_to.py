"""Visibility of spaces' events for a follower: a person sees those of the spaces they may read, while they may."""

from toolwright.core.errors import NotFound
from toolwright.core.threads.event import Event, Topic
from toolwright.web.auth.access import Caller
from toolwright.web.serving import Serving


class EventFilter:
    """Sight of one follower of the followed thing, which they may read.

    The events themselves tell when a person comes to a space, and when they go.
    """

    def __init__(self, serving: Serving, caller: Caller, topic: Topic) -> None:
        self._serving = serving
        self._caller = caller
        self._open: dict[str, bool] = {topic.id: True} if topic.kind == "space" else {}

    async def see(self, event: Event) -> bool:
        """Return whether the event may be shown: to who goes, also the word that they go."""
        if event.space_id is None or self._caller.kind == "service":
            return True
        before = self._open.get(event.space_id)
        if before is None:
            before = await self._may_read(event.space_id)
        self._open[event.space_id] = now = await self._after(event, before)
        return now or before

    def is_hidden(self, space_id: str) -> bool:
        """Return whether nothing more of that space is to be shown."""
        return self._open.get(space_id) is False

    async def _after(self, event: Event, before: bool) -> bool:
        """Return whether they may read the space once the event has happened."""
        if event.type == "space.deleted":
            return False
        if event.payload.get("entityId") != self._caller.entity_id:
            return before
        if event.type == "member_added":
            return True
        if event.type == "member_removed":
            return await self._is_public(event.space_id or "")
        return before

    async def _may_read(self, space_id: str) -> bool:
        try:
            await self._serving.permits.space(self._caller, space_id)
        except NotFound:
            return False
        return True

    async def _is_public(self, space_id: str) -> bool:
        try:
            return (await self._serving.runtime.spaces.get(space_id)).kind == "public"
        except NotFound:
            return False
