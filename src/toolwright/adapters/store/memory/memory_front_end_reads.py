"""What is read of front-ends in memory."""

from collections.abc import Sequence

from toolwright.adapters.store.engine.instants import micros
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.spaces.front_end import FrontEnd


class MemoryFrontEnds:
    """The `FrontEndReads` port on the tables in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def front_end(self, id: str) -> FrontEnd | None:
        return self._tables.front_ends.get(id)

    async def front_ends(
        self, *, entity_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[FrontEnd]:
        found = [one for one in self._tables.front_ends.values() if entity_id in (None, one.entity_id)]
        return sorted(found, key=lambda one: (micros(one.created_at), one.id))[offset : offset + limit]
