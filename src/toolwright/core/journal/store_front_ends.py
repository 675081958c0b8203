"""What is read of registered front-ends: a part of the `Store` port."""

from collections.abc import Sequence
from typing import Protocol

from toolwright.core.spaces.front_end import FrontEnd


class FrontEndReads(Protocol):
    """Registered front-ends. Raises `StoreError` when the journal cannot be read."""

    async def front_end(self, id: str) -> FrontEnd | None: ...

    async def front_ends(
        self, *, entity_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[FrontEnd]:
        """Front-ends, the oldest first; only those of an entity if it is named."""
        ...
