"""A bounded memory of what was made from objects that come again and again."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Source = TypeVar("Source")
Made = TypeVar("Made")


class Recent(Generic[Source, Made]):
    """Calls `make` once for each source, known by identity; the `size` sources asked for last are kept."""

    def __init__(self, make: Callable[[Source], Made], size: int) -> None:
        self._make = make
        self._size = size
        self._kept: OrderedDict[int, tuple[Source, Made]] = OrderedDict()

    def get(self, source: Source) -> Made:
        """What `make` returned for this very object (which is kept alive, so its id stays its own)."""
        key = id(source)
        entry = self._kept.get(key)
        if entry is not None:
            self._kept.move_to_end(key)
            return entry[1]
        made = self._make(source)
        self._kept[key] = (source, made)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return made
