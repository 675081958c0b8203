"""What is read of spaces in memory."""

from collections.abc import Sequence

from toolwright.adapters.store.engine.instants import micros
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.spaces.space import Member, Reaction, Space, SpaceMessage


class MemorySpaces:
    """The `SpaceReads` port on the tables in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def space(self, space_id: str) -> Space | None:
        return self._tables.spaces.get(space_id)

    async def spaces(
        self, *, seen_by: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Space]:
        found = [
            space
            for space in self._tables.spaces.values()
            if seen_by is None or space.kind == "public" or (space.id, seen_by) in self._tables.members
        ]
        found.sort(key=lambda space: (micros(space.created_at), space.id))
        return found[offset : offset + limit]

    async def spaces_of(self, entity_id: str, limit: int) -> Sequence[Space]:
        found = [
            each for each in self._tables.spaces.values() if (each.id, entity_id) in self._tables.members
        ]
        return sorted(found, key=lambda space: (micros(space.created_at), space.id))[:limit]

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        known = self._tables.members
        found = [each for each in known.values() if (each.space_id, entity_id) in known]
        found.sort(key=lambda each: (each.space_id, micros(each.joined_at), each.entity_id))
        people = self._tables.entities
        names = {each.entity_id: people.get(each.entity_id) for each in found}
        return [
            (each, one.display_name if (one := names[each.entity_id]) else None) for each in found[:limit]
        ]

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        found = [member for member in self._tables.members.values() if member.entity_id == entity_id]
        return sorted(found, key=lambda member: member.space_id)

    async def members(self, space_id: str) -> Sequence[Member]:
        found = [member for member in self._tables.members.values() if member.space_id == space_id]
        return sorted(found, key=lambda member: (micros(member.joined_at), member.entity_id))

    async def member(self, space_id: str, entity_id: str) -> Member | None:
        return self._tables.members.get((space_id, entity_id))

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        found = self._messages(space_id)
        if after is not None:
            return [each for each in found if (each.seq or 0) > after][:limit]
        if before is not None:
            found = [each for each in found if (each.seq or 0) < before]
        return found[-limit:] if limit else []

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        found = self._messages(space_id)
        end = max(0, len(found) - offset)
        return found[max(0, end - limit) : end]

    def _messages(self, space_id: str) -> list[SpaceMessage]:
        found = [each for each in self._tables.space_messages.values() if each.space_id == space_id]
        return sorted(found, key=lambda each: each.seq or 0)

    async def message(self, message_id: str) -> SpaceMessage | None:
        return self._tables.space_messages.get(message_id)

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        found = [each for each in self._tables.reactions.values() if each.message_id in message_ids]
        return sorted(found, key=lambda each: (micros(each.created_at), each.entity_id, each.emoji))

    async def caused(self, run_id: str, author: str) -> bool:
        run = self._tables.runs.get(run_id)
        if run is None:
            return False
        events = self._tables.threads[run.thread_id].inbox.values()
        return any(event.author == author and run_id in (event.run_id, event.promised) for event in events)
