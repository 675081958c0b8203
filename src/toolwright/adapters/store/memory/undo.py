"""Undo: rolls back a unit's changes of the in-memory tables when one of its preconditions fails.

Only units with effects need it, since each effect sees the previous ones, as in a transaction. They work on a view of
the tables that records each row before it is changed.
"""

from collections.abc import Callable, Iterator, MutableMapping, ValuesView
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar, cast

from toolwright.adapters.store.engine.outcome import UnitResult
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.adapters.store.memory.units import apply
from toolwright.core.journal.units import Unit

K = TypeVar("K")
V = TypeVar("V")
UNORDERED = frozenset({"wakes"})  # can have many rows, which are read by due time
_FIELDS = [field.name for field in fields(ThreadRow)]


class Undo:
    """Applies units atomically."""

    def __init__(self, tables: Tables) -> None:
        self._back: list[Callable[[], object]] = []
        self._kept_ids: set[int] = set()  # rows and tables recorded as a whole
        columns: dict[str, Any] = {field.name: getattr(tables, field.name) for field in fields(Tables)}
        for name, rows in columns.items():
            if isinstance(rows, dict):
                of_any = cast("dict[Any, Any]", rows)  # typed by the table
                columns[name] = Recorded(of_any, self, ordered=name not in UNORDERED)
        self._tables = Tables(**columns)

    def apply(self, unit: Unit) -> UnitResult:
        """Apply the unit. If this raises, nothing was written."""
        self._back.clear()
        self._kept_ids.clear()
        self.keep(self._tables.space_events)
        try:
            return apply(unit, self._tables)
        except BaseException:  # also for an interrupt, which would leave half a unit
            for back in reversed(self._back):
                back()
            raise

    def add(self, back: Callable[[], object]) -> None:
        """Add a function that undoes one change."""
        self._back.append(back)

    def keep(self, value: object) -> None:
        """Record the state of a value that can be modified in place."""
        if isinstance(value, ThreadRow):
            if self.is_first(value):
                self.add(_row_back(value))
        elif isinstance(value, list):
            rows = cast("list[object]", value)
            self.add(partial(_shorten, rows, len(rows)))

    def is_first(self, whole: object) -> bool:
        """Return whether the value has not been recorded in this unit yet."""
        if id(whole) in self._kept_ids:
            return False
        self._kept_ids.add(id(whole))
        return True


class Recorded(MutableMapping[K, V]):
    """A table whose changes can be undone, including changes of the rows read by key."""

    def __init__(self, rows: dict[K, V], undo: Undo, *, ordered: bool) -> None:
        self._rows = rows
        self._undo = undo
        self._ordered = ordered

    def __getitem__(self, key: K) -> V:
        value = self._rows[key]
        if isinstance(value, dict):  # the records of a class, which are always read in a given order
            records = cast("dict[Any, Any]", value)
            return cast("V", Recorded(records, self._undo, ordered=False))  # typed by the table
        self._undo.keep(value)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __setitem__(self, key: K, value: V) -> None:
        if key in self._rows:
            self._undo.add(partial(self._rows.__setitem__, key, self._rows[key]))
        else:
            self._undo.add(partial(self._rows.pop, key, None))
        self._rows[key] = value

    def __delitem__(self, key: K) -> None:
        """Delete a row. If the order matters, all rows are recorded, since a restored row would be at the end."""
        if not self._ordered:
            self._undo.add(partial(self._rows.__setitem__, key, self._rows[key]))
        elif self._undo.is_first(self._rows):
            self._undo.add(partial(_refill, self._rows, dict(self._rows)))
        del self._rows[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def values(self) -> ValuesView[V]:
        return self._rows.values()


def _row_back(row: ThreadRow) -> Callable[[], None]:
    """Return the action that restores a thread's row, including its inbox events that were unread or being read."""
    before = {name: getattr(row, name) for name in _FIELDS}
    messages, events, inbox = len(row.messages), len(row.events), len(row.inbox)
    unread, reading, files = dict(row.unread), dict(row.reading), dict(row.files)

    def back() -> None:
        for name, value in before.items():
            setattr(row, name, value)
        del row.messages[messages:]
        del row.events[events:]
        while len(row.inbox) > inbox:
            row.inbox.popitem()
        row.inbox.update({**unread, **reading})
        row.unread, row.reading, row.files = unread, reading, files

    return back


def _shorten(rows: list[object], length: int) -> None:
    del rows[length:]


def _refill(rows: dict[K, V], before: dict[K, V]) -> None:
    rows.clear()
    rows.update(before)
