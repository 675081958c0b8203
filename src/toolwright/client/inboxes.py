"""The inboxes of agents, as a client sees them."""

from toolwright.client.transport.http import Http, segment
from toolwright.wire.seen.reading import Items, read_field, read_list
from toolwright.wire.seen.threads import InboxEvent


class Inboxes:
    """What came to an agent's home thread, or to the thread that is named."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(
        self, agent: str, thread_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Items[InboxEvent]:
        """The events, the oldest first; what is `failed` waits until it is retried."""
        query = {"threadId": thread_id, "limit": limit, "offset": offset}
        return read_list(InboxEvent, await self._http.get(_path(agent), query), "events")

    async def retry(self, agent: str, event_id: str, thread_id: str | None = None) -> InboxEvent:
        """Try a failed event again, as if it were new. Raises `NotFound`, `NotFailed`."""
        path = f"{_path(agent)}/{segment(event_id)}/retry"
        answer = await self._http.call("POST", path, query={"threadId": thread_id})
        return read_field(InboxEvent, answer.json, "event")


def _path(agent: str) -> str:
    return f"/api/agents/{segment(agent)}/inbox"
