"""Spaces, their members and messages, entities and client registrations, over HTTP."""

from collections.abc import AsyncGenerator
from typing import Unpack

from toolwright.client.calls import Values, read_names, values_json
from toolwright.client.follow import follow
from toolwright.client.http import Http, segment
from toolwright.core.env.env import EnvType
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.spaces import DeliveryOrder, EntityFields, SpaceFields, SpaceKind
from toolwright.wire.event import Event
from toolwright.wire.shape import Items, read, read_field, read_list
from toolwright.wire.space import Entity, FrontEnd, Member, PostedMessage, Reaction, Space, SpaceMessage

_ENTITIES = "/api/entities"
_FRONT_ENDS = "/api/clients"
_ROOT = "/api/spaces"


class Entities:
    """Participants of spaces: people and agents. Raises `NotFound` for unknown ids."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(self, **fields: Unpack[EntityFields]) -> Entity:
        """Create a person, or update the fields of the person with that external id.

        It is not retried if the answer is lost (`AnswerLost`): without an external id it could create two.
        """
        body: JSONObject = {"type": "human", **_body(fields)}
        return read_field(Entity, (await self._http.call("POST", _ENTITIES, body)).json, "entity")

    async def list(self, limit: int = 50, offset: int = 0) -> Items[Entity]:
        """Return the agents in the order of their declaration, then the people, oldest first."""
        return read_list(
            Entity, await self._http.get(_ENTITIES, {"limit": limit, "offset": offset}), "entities"
        )

    async def get(self, entity_id: str) -> Entity:
        """Return the person or agent with that entity id."""
        return read_field(Entity, await self._http.get(_entity_path(entity_id)), "entity")

    async def update(self, entity_id: str, **fields: Unpack[EntityFields]) -> Entity:
        """Change the given fields of a person.

        Raises `AlreadyExists` if another person has the external id, `Forbidden` for an agent.
        """
        answer = await self._http.call("PATCH", _entity_path(entity_id), _body(fields), repeat="lost")
        return read_field(Entity, answer.json, "entity")

    async def delete(self, entity_id: str) -> None:
        """Delete a person and their values: their tokens become invalid, their threads remain."""
        await self._http.call("DELETE", _entity_path(entity_id), repeat="lost")

    async def set_env(self, entity_id: str, env: Values) -> dict[str, EnvType]:
        """Set values for all threads of a person, or delete them with None. Return the types of the set names."""
        body: JSONObject = {"env": values_json(env)}
        answer = await self._http.call("PATCH", f"{_entity_path(entity_id)}/env", body, repeat="lost")
        return read_names(answer.json)


def _body(fields: EntityFields) -> JSONObject:
    names = {"external_id": "externalId", "display_name": "displayName", "metadata": "metadata"}
    values: dict[str, JSON] = {**fields}  # type: ignore[dict-item]  # the fields are JSON
    unknown = [name for name in values if name not in names]
    if unknown:
        raise TypeError(f"An entity has no field {unknown[0]!r}. Its fields are {', '.join(names)}.")
    return {names[name]: each for name, each in values.items()}


def _entity_path(entity_id: str) -> str:
    return f"{_ENTITIES}/{segment(entity_id)}"


class FrontEnds:
    """Client registrations. Raises `NotFound` for unknown ids.

    `entity_id` is the owner, chosen by a service; a person always registers their own.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def register(
        self, entity_id: str | None = None, name: str | None = None, metadata: JSONObject | None = None
    ) -> FrontEnd:
        """Register a client of an entity. It is not retried if the answer is lost (`AnswerLost`)."""
        body: JSONObject = {"entityId": entity_id, "name": name, "metadata": metadata}
        return read_field(FrontEnd, (await self._http.call("POST", _FRONT_ENDS, body)).json, "client")

    async def list(self, entity_id: str | None = None, limit: int = 50, offset: int = 0) -> Items[FrontEnd]:
        """Return client registrations, oldest first. A service can select those of one entity."""
        query = {"entityId": entity_id, "limit": limit, "offset": offset}
        return read_list(FrontEnd, await self._http.get(_FRONT_ENDS, query), "clients")

    async def delete(self, client_id: str) -> None:
        """Delete a client registration."""
        await self._http.call("DELETE", f"{_FRONT_ENDS}/{segment(client_id)}", repeat="lost")


class Spaces:
    """Spaces and their messages. Raises `NotFound` for unknown ids.

    `entity_id` is the author on whose behalf a service writes; a person always writes as themselves.
    """

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(
        self,
        name: str | None = None,
        kind: SpaceKind = "private",
        id: str | None = None,
        delivery: DeliveryOrder = "all",
    ) -> Space:
        """Create a space without members. Raises `AlreadyExists` if the id exists."""
        body: JSONObject = {"name": name, "kind": kind, "delivery": delivery}
        body |= {} if id is None else {"id": id}
        return read_field(Space, (await self._http.call("POST", _ROOT, body)).json, "space")

    async def list(self, limit: int = 50, offset: int = 0) -> Items[Space]:
        """Return spaces, oldest first. A person sees public spaces and the spaces of which they are a member."""
        return read_list(Space, await self._http.get(_ROOT, {"limit": limit, "offset": offset}), "spaces")

    async def get(self, space_id: str) -> Space:
        """Return the space."""
        return read_field(Space, await self._http.get(_path(space_id)), "space")

    async def update(self, space_id: str, **fields: Unpack[SpaceFields]) -> Space:
        """Change the given fields of the space."""
        body: JSONObject = {**fields}  # type: ignore[dict-item]  # the fields are JSON
        answer = await self._http.call("PATCH", _path(space_id), body, repeat="lost")
        return read_field(Space, answer.json, "space")

    async def delete(self, space_id: str) -> None:
        """Delete the space with its messages."""
        await self._http.call("DELETE", _path(space_id), repeat="lost")

    async def members(self, space_id: str, limit: int = 1_000, offset: int = 0) -> Items[Member]:
        """Return the members of the space, in the order of joining."""
        path = f"{_path(space_id)}/members"
        return read_list(Member, await self._http.get(path, {"limit": limit, "offset": offset}), "members")

    async def add_member(self, space_id: str, entity: str, role: str = "member") -> Member:
        """Add an entity (its id, or an agent's name or id), or change its role."""
        body: JSONObject = {"entityId": entity, "role": role}
        answer = await self._http.call("POST", f"{_path(space_id)}/members", body, repeat="lost")
        return read_field(Member, answer.json, "membership")

    async def remove_member(self, space_id: str, entity_id: str) -> None:
        """Remove a member from the space."""
        await self._http.call("DELETE", f"{_path(space_id)}/members/{segment(entity_id)}", repeat="lost")

    async def say(
        self,
        space_id: str,
        content: str,
        *,
        entity_id: str | None = None,
        metadata: JSONObject | None = None,
        parent_id: str | None = None,
    ) -> PostedMessage:
        """Post a message. It is not retried if the answer is lost (`AnswerLost`), because it could be posted twice."""
        body: JSONObject = {"content": content, "entityId": entity_id, "metadata": metadata}
        body["parentMessageId"] = parent_id
        return read(PostedMessage, (await self._http.call("POST", f"{_path(space_id)}/messages", body)).json)

    async def messages(
        self,
        space_id: str,
        limit: int = 50,
        *,
        after_seq: int | None = None,
        before_seq: int | None = None,
    ) -> Items[SpaceMessage]:
        """Return messages, oldest first. Without `after_seq` and `before_seq`, the newest `limit` messages."""
        query = {"limit": limit, "afterSeq": after_seq, "beforeSeq": before_seq}
        answer = await self._http.get(f"{_path(space_id)}/messages", query)
        return read_list(SpaceMessage, answer, "messages")

    async def edit(self, message_id: str, content: str) -> SpaceMessage:
        """Change the text of a message. A person may change their own messages, a service all."""
        answer = await self._http.call("PATCH", _message(message_id), {"content": content}, repeat="lost")
        return read_field(SpaceMessage, answer.json, "message")

    async def erase(self, message_id: str) -> None:
        """Delete a message. A person may delete their own messages, a service all."""
        await self._http.call("DELETE", _message(message_id), repeat="lost")

    async def react(self, message_id: str, emoji: str, *, entity_id: str | None = None) -> Reaction:
        """React to a message; repeating a reaction changes nothing."""
        body: JSONObject = {"emoji": emoji, "entityId": entity_id}
        answer = await self._http.call("POST", f"{_message(message_id)}/reactions", body, repeat="lost")
        return read_field(Reaction, answer.json, "reaction")

    async def unreact(self, message_id: str, emoji: str, *, entity_id: str | None = None) -> None:
        """Remove a reaction."""
        body: JSONObject = {"emoji": emoji, "entityId": entity_id}
        await self._http.call("DELETE", f"{_message(message_id)}/reactions", body, repeat="lost")

    async def mark_read(self, space_id: str, seq: int) -> Member:
        """Set the position up to which the caller has read the space. Only people have unread counts."""
        answer = await self._http.call("PATCH", f"{_path(space_id)}/read", {"seq": seq}, repeat="lost")
        return read_field(Member, answer.json, "membership")

    def follow(self, space_id: str, after: int | None = None) -> AsyncGenerator[Event]:
        """Yield the space's events, without end: first recorded events with a number above `after`, then new events.

        `after=0` starts with the oldest event, None with the next one. See `Threads.follow`.
        """
        return follow(self._http, f"{_path(space_id)}/stream", after)


def _path(space_id: str) -> str:
    return f"{_ROOT}/{segment(space_id)}"


def _message(message_id: str) -> str:
    return f"/api/messages/{segment(message_id)}"
