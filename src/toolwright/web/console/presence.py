"""Presence: which people have the console open at a space, and who of them is typing, in this process."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Place:
    space_id: str
    entity_id: str
    changed: Callable[[], None]


class Presence:
    """People at spaces. It is not kept: who goes is gone, and other processes' people are not known."""

    def __init__(self) -> None:
        self._places: dict[object, _Place] = {}
        self._typing: dict[object, bool] = {}

    def come(self, visitor: object, space_id: str, entity_id: str, changed: Callable[[], None]) -> None:
        """Somebody has opened the space on a page; `changed` is called whenever others come, go or type there."""
        self.leave(visitor)
        self._places[visitor] = _Place(space_id, entity_id, changed)
        self._tell(space_id, visitor)

    def leave(self, visitor: object) -> None:
        """The page shows the space no longer."""
        place = self._places.pop(visitor, None)
        self._typing.pop(visitor, None)
        if place is not None:
            self._tell(place.space_id, visitor)

    def type(self, visitor: object, *, is_typing: bool) -> None:
        """Somebody types at the page, or has stopped."""
        place = self._places.get(visitor)
        if place is not None and self._typing.get(visitor, False) != is_typing:
            self._typing[visitor] = is_typing
            self._tell(place.space_id, visitor)

    def present(self, space_id: str) -> set[str]:
        """The entities that are there."""
        return {place.entity_id for place in self._places.values() if place.space_id == space_id}

    def typing(self, space_id: str) -> set[str]:
        """Those of them who type."""
        return {
            place.entity_id
            for visitor, place in self._places.items()
            if place.space_id == space_id and self._typing.get(visitor, False)
        }

    def _tell(self, space_id: str, but: object) -> None:
        for visitor, place in [*self._places.items()]:
            if visitor is not but and place.space_id == space_id:
                place.changed()
