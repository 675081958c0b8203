"""Front-ends registered for entities, and signed-out sessions of the console."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from toolwright.core.errors import NotFound, StoreError
from toolwright.core.journal.effects import Add, Delete
from toolwright.core.journal.units import Conflict, SignOut, UseOnce
from toolwright.core.json_value import JSONObject
from toolwright.core.spaces import FrontEnd
from toolwright.runtime.checks import by_id, by_text, page
from toolwright.runtime.journal import EffectCommits, Services
from toolwright.runtime.spaces.entities import Entities
from toolwright.runtime.spaces.fields import metadata_of, name_of


class FrontEnds:
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
            raise StoreError("The client could not be registered: its id is taken.")
        return front_end

    async def get(self, id: str) -> FrontEnd:
        """Return the front-end."""
        front_end = await self._store.records.one(FrontEnd, by_id("client", id))
        if front_end is None:
            raise NotFound(f"There is no client {id!r}.")
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
            raise NotFound(f"There is no client {id!r}.")

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
