"""Rows of a list that is looked at again and again: only those that have changed are drawn anew."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from nicegui.element import Element

from toolwright.core.broken_rows import broken_of
from toolwright.core.text import brief
from toolwright.web.console.widgets import box, words

T = TypeVar("T")


def draw_broken(rows: Sequence[object]) -> None:
    """Say of the rows of a list that could not be read which they are, so that nothing is missing in silence."""
    for broken in broken_of(rows)[:3]:
        words(brief(broken.sentence, 300), "p", "error section")


class Rows(Generic[T]):
    """Values by their keys, each in an element that `make` opens and `draw` fills."""

    def __init__(self, make: Callable[[str], Element], draw: Callable[[T], object]) -> None:
        self._make = make
        self._draw = draw
        self._list = box("div", "list")
        self._rows: dict[str, tuple[T, Element]] = {}

    def show(self, values: Mapping[str, T]) -> None:
        """These values, in their order."""
        for key in [key for key in self._rows if key not in values]:
            self._rows.pop(key)[1].delete()
        self._list.set_visibility(bool(values))
        in_order = [*self._rows] == [key for key in values if key in self._rows]
        for place, (key, value) in enumerate(values.items()):
            row = self._rows.get(key)
            if row is None:
                with self._list:
                    element = self._make(key)
                element.move(self._list, place)
            elif in_order:
                element = row[1]
            else:
                element = row[1]
                element.move(self._list, place)
            if row is None or row[0] != value:
                with element.clear():
                    self._draw(value)
            self._rows[key] = (value, element)
        self._rows = {key: self._rows[key] for key in values}
