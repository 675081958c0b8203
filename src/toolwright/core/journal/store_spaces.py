"""What is read of spaces: the part of the `Store` port that knows them."""

from collections.abc import Sequence
from typing import Protocol

from toolwright.core.spaces.space import Member, Reaction, Space, SpaceMessage


class SpaceReads(Protocol):
    """Spaces, who is in them and what was said there. Raises `StoreError` when the journal cannot be read."""

    async def space(self, space_id: str) -> Space | None: ...

    async def spaces(
        self, *, seen_by: str | None = None, limit: int = 50, offset: int = 0
    ) -> Sequence[Space]:
        """Spaces, the oldest first; those that an entity is a member of and the public ones if it is named."""
        ...

    async def memberships(self, entity_id: str) -> Sequence[Member]:
        """Where an entity is a member, by space."""
        ...

    async def spaces_of(self, entity_id: str, limit: int) -> Sequence[Space]:
        """The spaces that an entity is a member of, the oldest first."""
        ...

    async def company(self, entity_id: str, limit: int) -> Sequence[tuple[Member, str | None]]:
        """All members of those spaces, by space, who came first first; people with their display names."""
        ...

    async def members(self, space_id: str) -> Sequence[Member]:
        """Who is in a space, who came first first."""
        ...

    async def member(self, space_id: str, entity_id: str) -> Member | None: ...

    async def messages(
        self, space_id: str, *, after: int | None = None, before: int | None = None, limit: int = 50
    ) -> Sequence[SpaceMessage]:
        """Messages in order: the first behind the place `after`, else the last before `before`, or of all."""
        ...

    async def newest(self, space_id: str, limit: int, offset: int) -> Sequence[SpaceMessage]:
        """A page of history in order, which ends `offset` messages before the newest."""
        ...

    async def message(self, message_id: str) -> SpaceMessage | None: ...

    async def reactions(self, message_ids: Sequence[str]) -> Sequence[Reaction]:
        """The reactions to these messages, the oldest first."""
        ...

    async def caused(self, run_id: str, author: str) -> bool:
        """Whether the run reads, or was promised to read, what that entity has said."""
        ...
