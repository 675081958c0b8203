"""Which events of spaces a follower is shown: a person those of the spaces they may read, as long as they may."""

from toolwright.core.errors import NotFound
from toolwright.core.event import Event
from toolwright.web.access import Caller
from toolwright.web.serving import Serving

_CHANGES = ("member_added", "member_removed", "space.deleted")


class Eyes:
    """What one follower sees. A verdict on a space holds until its events say that the follower came or went."""

    def __init__(self, serving: Serving, caller: Caller) -> None:
        self._serving = serving
        self._caller = caller
        self._verdicts: dict[str, bool] = {}

    async def see(self, event: Event) -> bool:
        """Whether the event may be shown."""
        if event.space_id is None or self._caller.kind == "service":
            return True
        known = self._verdicts.get(event.space_id)
        about_them = event.payload.get("entityId") == self._caller.entity_id
        if known is None or (event.type in _CHANGES and (about_them or event.type == "space.deleted")):
            self._verdicts[event.space_id] = await self._may_read(event.space_id)
        if known and event.type == "space.deleted":
            return True
        return self._verdicts[event.space_id]

    async def _may_read(self, space_id: str) -> bool:
        try:
            await self._serving.permits.space(self._caller, space_id)
        except NotFound:
            return False
        return True
