"""Presence: which people have the console open at a space, and who of them is typing, in all processes of a cluster."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from toolwright.core.json_value import JSON
from toolwright.core.ports import Bus

KEY = "presence "
MOST_SHOWN = 100  # people of a space that other processes are shown


@dataclass(frozen=True, slots=True)
class _Place:
    space_id: str
    entity_id: str
    changed: Callable[[], None]


class Presence:
    """People at spaces. It is not kept: who goes is gone, and people of a process that dies, seconds later.

    `bus` returns the bus of the runtime that is open when a page opens.
    """

    def __init__(self, bus: Callable[[], Bus]) -> None:
        self._open_bus = bus
        self._bus: Bus | None = None
        self._places: dict[object, _Place] = {}
        self._typing: dict[object, bool] = {}

    def close(self) -> None:
        """Stop following other processes."""
        if self._bus is not None:
            self._bus.on_shared.remove(self._changed_elsewhere)
            self._bus = None

    def come(self, visitor: object, space_id: str, entity_id: str, changed: Callable[[], None]) -> None:
        """Somebody has opened the space on a page; `changed` is called whenever others come, go or type there."""
        self.leave(visitor)
        bus = self._open_bus()
        if bus is not self._bus:
            self.close()
            self._bus = bus
            bus.on_shared.append(self._changed_elsewhere)
        self._places[visitor] = _Place(space_id, entity_id, changed)
        self._changed(space_id, visitor)

    def leave(self, visitor: object) -> None:
        """The page shows the space no longer."""
        place = self._places.pop(visitor, None)
        self._typing.pop(visitor, None)
        if place is not None:
            self._changed(place.space_id, visitor)

    def type(self, visitor: object, *, is_typing: bool) -> None:
        """Somebody types at the page, or has stopped."""
        place = self._places.get(visitor)
        if place is not None and self._typing.get(visitor, False) != is_typing:
            self._typing[visitor] = is_typing
            self._changed(place.space_id, visitor)

    def present(self, space_id: str) -> set[str]:
        """The entities that are there."""
        return self._here(space_id).keys() | {entity_id for entity_id, _ in self._elsewhere(space_id)}

    def typing(self, space_id: str) -> set[str]:
        """Those of them who type."""
        here = {entity_id for entity_id, types in self._here(space_id).items() if types}
        return here | {entity_id for entity_id, types in self._elsewhere(space_id) if types}

    def _here(self, space_id: str) -> dict[str, JSON]:
        """Return the people whose pages are in this process, and whether they type at one of them."""
        people = dict[str, JSON]()
        for visitor, place in self._places.items():
            if place.space_id == space_id:
                types = self._typing.get(visitor, False)
                people[place.entity_id] = types or bool(people.get(place.entity_id))
        return people

    def _elsewhere(self, space_id: str) -> Iterator[tuple[str, JSON]]:
        for people in () if self._bus is None else self._bus.shared(KEY + space_id):
            if isinstance(people, dict):
                yield from people.items()

    def _changed(self, space_id: str, but: object) -> None:
        if self._bus is not None:
            shown = dict([*self._here(space_id).items()][:MOST_SHOWN])
            self._bus.share(KEY + space_id, shown or None)
        self._redraw(space_id, but)

    def _changed_elsewhere(self, key: str) -> None:
        if key.startswith(KEY):
            self._redraw(key.removeprefix(KEY), None)

    def _redraw(self, space_id: str, but: object) -> None:
        for visitor, place in [*self._places.items()]:
            if visitor is not but and place.space_id == space_id:
                place.changed()
