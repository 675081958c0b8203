"""Registered front-ends, as a client sees them."""

from toolwright.client.transport.http import Http, segment
from toolwright.core.json_value import JSONObject
from toolwright.wire.seen.reading import Items, read_field, read_list
from toolwright.wire.seen.threads import FrontEnd

_ROOT = "/api/clients"


class FrontEnds:
    """What a client does with registered front-ends, which the wire calls clients.

    Ids that lead nowhere raise `NotFound`. `entity_id` says whose they are; a person's are always their own.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def register(
        self, entity_id: str | None = None, name: str | None = None, metadata: JSONObject | None = None
    ) -> FrontEnd:
        """A new front-end of that entity. It is not repeated when its answer is lost (`AnswerLost`)."""
        body: JSONObject = {"entityId": entity_id, "name": name, "metadata": metadata}
        return read_field(FrontEnd, (await self._http.call("POST", _ROOT, body)).json, "client")

    async def list(self, entity_id: str | None = None, limit: int = 50, offset: int = 0) -> Items[FrontEnd]:
        """Front-ends, the oldest first; of a service's, those of one entity if it is named."""
        query = {"entityId": entity_id, "limit": limit, "offset": offset}
        return read_list(FrontEnd, await self._http.get(_ROOT, query), "clients")

    async def delete(self, client_id: str) -> None:
        """Take a front-end off the list."""
        await self._http.call("DELETE", f"{_ROOT}/{segment(client_id)}", repeat="lost")
