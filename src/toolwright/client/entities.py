"""Entities and their front-ends, as a client sees them."""

from typing import Unpack

from toolwright.client.requests import Values, read_names, values_json
from toolwright.client.transport.http import Http, segment
from toolwright.core.env.env import EnvType
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.spaces.entity import EntityFields
from toolwright.wire.entity import Entity, FrontEnd
from toolwright.wire.reading import Items, read_field, read_list

_ROOT = "/api/entities"


class Entities:
    """People, and agents as participants. Raises `NotFound` for ids that lead nowhere."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(self, **fields: Unpack[EntityFields]) -> Entity:
        """Create a person, or update the fields of the person with that external id.

        It is not retried if the answer is lost (`AnswerLost`): without an external id it could create two.
        """
        body: JSONObject = {"type": "human", **_body(fields)}
        return read_field(Entity, (await self._http.call("POST", _ROOT, body)).json, "entity")

    async def list(self, limit: int = 50, offset: int = 0) -> Items[Entity]:
        """Return the agents in the order of their declaration, then the people, oldest first."""
        return read_list(Entity, await self._http.get(_ROOT, {"limit": limit, "offset": offset}), "entities")

    async def get(self, entity_id: str) -> Entity:
        """Return the entity, a person or an agent."""
        return read_field(Entity, await self._http.get(_path(entity_id)), "entity")

    async def update(self, entity_id: str, **fields: Unpack[EntityFields]) -> Entity:
        """Change the fields given; `AlreadyThere` if another has the external id, `Forbidden` for an agent."""
        answer = await self._http.call("PATCH", _path(entity_id), _body(fields), repeat="lost")
        return read_field(Entity, answer.json, "entity")

    async def delete(self, entity_id: str) -> None:
        """Delete a person and their values: their tokens become invalid, their threads remain."""
        await self._http.call("DELETE", _path(entity_id), repeat="lost")

    async def set_env(self, entity_id: str, env: Values) -> dict[str, EnvType]:
        """Set values for all threads of a person, or delete them with None; return the names that are set."""
        body: JSONObject = {"env": values_json(env)}
        answer = await self._http.call("PATCH", f"{_path(entity_id)}/env", body, repeat="lost")
        return read_names(answer.json)


def _body(fields: EntityFields) -> JSONObject:
    names = {"external_id": "externalId", "display_name": "displayName", "metadata": "metadata"}
    values: dict[str, JSON] = {**fields}  # type: ignore[dict-item]  # the fields are JSON
    unknown = [name for name in values if name not in names]
    if unknown:
        raise TypeError(f"An entity has no field {unknown[0]!r}: it has {', '.join(names)}.")
    return {names[name]: each for name, each in values.items()}


def _path(entity_id: str) -> str:
    return f"{_ROOT}/{segment(entity_id)}"


_FRONT_ENDS = "/api/clients"


class FrontEnds:
    """Registered front-ends, which the wire calls clients.

    Ids that lead nowhere raise `NotFound`. `entity_id` says whose they are; a person's are always their own.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def register(
        self, entity_id: str | None = None, name: str | None = None, metadata: JSONObject | None = None
    ) -> FrontEnd:
        """A new front-end of that entity. It is not repeated when its answer is lost (`AnswerLost`)."""
        body: JSONObject = {"entityId": entity_id, "name": name, "metadata": metadata}
        return read_field(FrontEnd, (await self._http.call("POST", _FRONT_ENDS, body)).json, "client")

    async def list(self, entity_id: str | None = None, limit: int = 50, offset: int = 0) -> Items[FrontEnd]:
        """Front-ends, the oldest first; of a service's, those of one entity if it is named."""
        query = {"entityId": entity_id, "limit": limit, "offset": offset}
        return read_list(FrontEnd, await self._http.get(_FRONT_ENDS, query), "clients")

    async def delete(self, client_id: str) -> None:
        """Delete a front-end."""
        await self._http.call("DELETE", f"{_FRONT_ENDS}/{segment(client_id)}", repeat="lost")
