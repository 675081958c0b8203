"""Entities: people, with their registered front-ends and signed-out sessions, and the app's agents."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Unpack

from pydantic.alias_generators import to_camel

from toolwright.core import errors
from toolwright.core.checks import brief_value
from toolwright.core.env.env import EnvInput, EnvType, EnvVar, read_env
from toolwright.core.journal.rows import Add, Delete, Guard
from toolwright.core.journal.units import Conflict, DropEntity, SaveEntity, SetEnv, SignOut, UseOnce
from toolwright.core.json_value import (
    JSON,
    LONG_KEY,
    NOT_ONE_LINE,
    NOT_WRITABLE,
    JSONObject,
    has_long_key,
    one_line,
    plain,
    unwritable,
)
from toolwright.core.limits import MAX_NAME, Page, ended_early
from toolwright.core.spaces import OWN_PREFIX, Entity, EntityFields, FrontEnd, entity_of
from toolwright.core.value import changed
from toolwright.runtime.agents.agents import Agents, drop_minds
from toolwright.runtime.carried import Carried
from toolwright.runtime.env import Environment
from toolwright.runtime.journal import EffectCommits, Services, by_id, by_text, can_be_id, page
from toolwright.runtime.spaces.fields import metadata_of, name_of
from toolwright.wire.space import member_removed_event

log = logging.getLogger("toolwright.runtime")

ALL = 1_000_000  # agents
MAX_EXTERNAL_ID = 512  # characters of an external id that every store can index
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredEntity:
    """An entity, and whether it is new."""

    entity: Entity
    created: bool


class Entities(Carried):
    """Entities, for services. Raises `NotFound` for unknown ids."""

    def __init__(self, services: Services, agents: Agents, environment: Environment) -> None:
        self._store = services.store
        self._agents = agents
        self._environment = environment
        self._clock = services.clock
        self._new_id = services.new_id

    async def create(self, **fields: Unpack[EntityFields]) -> Entity:
        """Create a person, or update the person with the same external id."""
        return (await self.register(**fields)).entity

    async def register(self, **fields: Unpack[EntityFields]) -> RegisteredEntity:
        """Create or update a person as `create` does. Concurrent calls create one person per external id."""
        checked = _checked(fields)
        now = self._clock.now()
        new = Entity(id=self._new_id("ent"), type="human", metadata={}, created_at=now, updated_at=now)
        new = _with(new, checked, now)
        while True:
            if await self._save(new) is None:
                return RegisteredEntity(entity=new, created=True)
            existing = await self.get_by_external_id(new.external_id) if new.external_id else None
            if existing is None:
                continue  # deleted in the meantime
            saved = await self._change(existing, checked)
            if isinstance(saved, Entity):
                return RegisteredEntity(entity=saved, created=False)

    async def get(self, entity_id: str) -> Entity:
        """Return the entity, a human or an agent."""
        entity = await self.get_or_none(by_id("entity", entity_id))
        if entity is None:
            raise errors.NotFound(f"There is no entity {entity_id!r}.")
        return entity

    async def find(self, entity: str) -> Entity:
        """Return the entity with that id, or the agent with that name or id."""
        with_id = await self.get_or_none(entity) if can_be_id(entity) else None
        if with_id is not None:
            return with_id
        try:
            return entity_of(await self._agents.get(entity))
        except errors.NotFound:
            raise errors.NotFound(f"There is no entity {entity!r}.") from None

    async def get_or_none(self, entity_id: str) -> Entity | None:
        """Return the entity, or None if it does not exist."""
        entity = await self._store.entity(entity_id)
        if entity is not None:
            return entity
        agent = await self._agents.of_entity(entity_id)
        return None if agent is None else entity_of(agent)

    async def get_for_display(self, entity_id: str) -> Entity | None:
        """Return the entity for display, or None if it does not exist or its row is broken."""
        try:
            return await self.get_or_none(entity_id)
        except errors.RowBroken as error:
            log.warning("%s", error)
            return None

    async def get_human(self, entity_id: str) -> Entity | None:
        """Return the human with that id, or None."""
        return await self._store.entity(entity_id) if can_be_id(entity_id) else None

    async def get_by_external_id(self, external_id: str) -> Entity | None:
        """Return the human with that external id, which their tokens contain, or None."""
        return await self._store.entity_by_external_id(external_id) if can_be_id(external_id) else None

    async def list(self, limit: int = 50, offset: int = 0) -> Sequence[Entity]:
        """Return the agents, declared and configured, then the humans, the oldest first."""
        page(limit, offset)
        agents = [entity_of(agent) for agent in await self._agents.list(ALL)]
        agent_page = agents[offset : offset + limit]
        if len(agent_page) == limit:
            return agent_page
        humans = await self._store.entities(
            limit=type(limit)(limit - len(agent_page)), offset=max(0, offset - len(agents))
        )
        return Page([*agent_page, *humans], more=ended_early(humans))

    async def update(self, entity_id: str, **fields: Unpack[EntityFields]) -> Entity:
        """Change the given fields. `AlreadyExists` if another entity has the external id, `Forbidden` for an agent."""
        checked = _checked(fields)
        while True:
            saved = await self._change(await self._human(entity_id), checked)
            if isinstance(saved, Entity):
                return saved
            if saved == "duplicate":
                raise errors.AlreadyExists(
                    f"Another entity already has the external id {checked.get('external_id')!r}."
                )

    async def delete(self, entity_id: str) -> None:
        """Delete a human, their env, and the data that agents store for them alone.

        They leave their spaces, their tokens no longer authenticate, and their threads are kept. Raises `Forbidden` for
        an agent.
        """
        events = (member_removed_event(entity_id),)
        refused = True
        while refused:  # retry if a space has changed in the meantime
            await self._human(entity_id)
            while keepers := await self._store.agents.keepers_of_user(entity_id):
                await drop_minds(self._store, keepers, self._clock, self._new_id)
            token = self._new_id("unit")
            unit = DropEntity(token=token, at=self._clock.now(), entity_id=entity_id, told=events)
            refused = isinstance(await self._store.commit(unit), Conflict)

    async def env(self, entity_id: str) -> Mapping[str, EnvType]:
        """Return the names that were set for a human, with their types; never a value."""
        await self._human(entity_id)
        return {row.name: row.type for row in await self._store.env_of(entity_id)}

    async def set_env(self, entity_id: str, env: EnvInput) -> Mapping[str, EnvType]:
        """Set variables for all threads of a human (D5), or delete them with None. Return the resulting names.

        A run in progress uses them from its next read of the env on. Raises `CannotSeal` for a secret if no keys are
        configured.
        """
        values = read_env(env)
        while True:
            await self._human(entity_id)
            if await self._set(entity_id, values) is None:  # otherwise deleted or changed in the meantime
                return await self.env(entity_id)

    async def _set(self, entity_id: str, values: Mapping[str, EnvVar | None]) -> Guard | None:
        now = self._clock.now()
        changes = [self._environment.change(entity_id, name, var, now) for name, var in values.items()]
        unit = SetEnv(
            token=self._new_id("unit"), at=now, thread_id=None, entity_id=entity_id, env=tuple(changes)
        )
        answer = await self._store.commit(unit)
        return answer.guard if isinstance(answer, Conflict) else None

    async def _human(self, entity_id: str) -> Entity:
        entity = await self.get(entity_id)
        if entity.type == "agent":
            raise errors.Forbidden(
                f"The entity {entity_id!r} is the agent {entity.display_name!r}, which is declared in "
                "the code of the app. Change it there."
            )
        return entity

    async def _change(self, was: Entity, fields: EntityFields) -> Entity | Guard:
        """Return the changed entity, or the guard that failed."""
        entity = _with(was, fields, was.updated_at)
        if entity == was:
            return was
        entity = changed(entity, updated_at=_after(was.updated_at, self._clock.now()))
        return await self._save(entity, was) or entity

    async def _save(self, entity: Entity, was: Entity | None = None) -> Guard | None:
        unit = SaveEntity(token=self._new_id("unit"), at=self._clock.now(), entity=entity, was=was)
        answer = await self._store.commit(unit)
        return answer.guard if isinstance(answer, Conflict) else None


def _with(entity: Entity, fields: EntityFields, at: datetime | None) -> Entity:
    return changed(entity, updated_at=at, **fields)


def _after(last: datetime | None, now: datetime) -> datetime:
    """Return a timestamp later than the previous one, even if the clock has not advanced."""
    return now if last is None else max(now, last + _TICK)


def _checked(fields: Mapping[str, object]) -> EntityFields:
    """Return the fields if every store can hold them. Callers can pass anything."""
    checked: EntityFields = {}
    for name, given_value in fields.items():
        match name:
            case "external_id":
                checked["external_id"] = _external_id(given_value)
            case "display_name":
                checked["display_name"] = _line(name, given_value)
            case "metadata":
                checked["metadata"] = _metadata(given_value)
            case _:
                raise _invalid_value(
                    name, "is not a field of an entity; the fields are external_id, display_name and metadata"
                )
    return checked


def _external_id(value: object) -> str | None:
    text = _text("external_id", value)
    if text is None:
        return None
    if not text.strip():
        raise _invalid_value("external_id", "must not be empty")
    if len(text) > MAX_EXTERNAL_ID:
        raise _invalid_value("external_id", f"must have at most {MAX_EXTERNAL_ID} characters")
    if text.startswith(OWN_PREFIX):
        raise _invalid_value("external_id", f"must not begin with {OWN_PREFIX!r}, which is reserved")
    return text


def _text(path: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _invalid_value(path, f"must be text, not {brief_value(value)}")
    if value is not None and unwritable(value):
        raise _invalid_value(path, NOT_WRITABLE)
    return value


def _line(path: str, value: object) -> str | None:
    text = _text(path, value)
    if text is not None and not one_line(text):
        raise _invalid_value(path, NOT_ONE_LINE)
    if text is not None and len(text) > MAX_NAME:
        raise _invalid_value(path, f"must have at most {MAX_NAME} characters")
    return text


def _metadata(value: object) -> dict[str, JSON]:
    try:
        copy = plain(value)
    except errors.InvalidJSON as error:
        raise _invalid_value("metadata", error.message.rstrip(".")) from error
    if not isinstance(copy, dict):
        raise _invalid_value("metadata", "must be an object")
    if has_long_key(copy):
        raise _invalid_value("metadata", LONG_KEY)
    return copy


def _invalid_value(path: str, error: str) -> errors.InvalidRequest:
    """Return the error, with the fields named as on the wire."""
    field = to_camel(path)
    return errors.InvalidRequest(f"{field} {error}.", [{"path": field, "message": error}])


class FrontEnds(Carried):
    """Registered front-ends of people. Raises `NotFound` for unknown ids."""

    def __init__(self, services: Services, entities: Entities) -> None:
        self._store = services.store
        self._effect_commits = EffectCommits(services)
        self._entities = entities
        self._clock = services.clock
        self._new_id = services.new_id

    async def register(
        self, entity_id: str, name: str | None = None, metadata: JSONObject | None = None
    ) -> FrontEnd:
        """Create a front-end of that entity."""
        entity = await self._entities.get(entity_id)
        front_end = FrontEnd(
            id=self._new_id("cli"),
            entity_id=entity.id,
            name=name_of("name", name),
            metadata=metadata_of(metadata),
            created_at=self._clock.now(),
        )
        if isinstance(await self._effect_commits.commit(Add(record=front_end)), Conflict):
            raise errors.StoreError("The client could not be registered: its id is taken.")
        return front_end

    async def get(self, id: str) -> FrontEnd:
        """Return the front-end."""
        front_end = await self._store.records.one(FrontEnd, by_id("client", id))
        if front_end is None:
            raise errors.NotFound(f"There is no client {id!r}.")
        return front_end

    async def list(
        self, entity_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[FrontEnd]:
        """Return front-ends, the oldest first, optionally only those of one entity."""
        page(limit, offset)
        owner_id = by_text("entityId", entity_id)
        return await self._store.records.list(FrontEnd, owner_id, limit=limit, offset=offset)

    async def delete(self, id: str) -> None:
        """Delete a registration."""
        drop = Delete(kind=FrontEnd, key=(by_id("client", id),), guard="front_end")
        if isinstance(await self._effect_commits.commit(drop), Conflict):
            raise errors.NotFound(f"There is no client {id!r}.")

    async def sign_out(self, key: str, at: datetime, until: datetime) -> None:
        """End the console's session with the id `key`, or all sessions of the caller `key` that started by `at`.

        The sign-out is stored until `until`, when the sessions have expired.
        """
        unit = SignOut(token=self._new_id("unit"), at=at, key=key, until=until)
        await self._store.commit(unit)

    async def use_once(self, key: str, until: datetime) -> bool:
        """Use up the key of a token, stored until `until`. Return False if it was already used, in any process."""
        unit = UseOnce(token=self._new_id("unit"), at=self._clock.now(), key=key, until=until)
        return not isinstance(await self._store.commit(unit), Conflict)

    async def signed_out(self, session: str, caller: str) -> Mapping[str, datetime]:
        """Return when the session with this id, and all sessions of this caller, were signed out, by key."""
        return await self._store.sessions.signed_out(session, caller)
