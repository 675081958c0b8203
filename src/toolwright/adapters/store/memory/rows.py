"""Row operations in memory: the rows of each class in a dictionary by key, and a log that undoes a refused unit."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from operator import attrgetter, itemgetter
from typing import Any, Generic, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from toolwright.core.agents.memory import PassageRow
from toolwright.core.env.env import EnvRow
from toolwright.core.files import File
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.agent_effects import AGENT
from toolwright.core.journal.retention import DroppedBytes
from toolwright.core.journal.rows import (
    Add,
    Among,
    Append,
    Archive,
    Batch,
    Clear,
    Delete,
    Descendants,
    Find,
    Guard,
    GuardFailed,
    LateCalls,
    Lock,
    Move,
    Not,
    OneOf,
    Operation,
    Publish,
    Put,
    Rule,
    Sweep,
    Swept,
    Tell,
    Test,
    Where,
    matches_all,
    new_values,
)
from toolwright.core.journal.space_effects import SPACE
from toolwright.core.spaces import Member, Reaction, SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import Compaction, SentText
from toolwright.core.threads.event import Event, RunEvents
from toolwright.core.threads.inbox import InboxEvent
from toolwright.core.threads.message import Message, MessageVersion
from toolwright.core.threads.run import Run, Step
from toolwright.core.threads.thread import Thread, ThreadValue
from toolwright.core.value import Record, changed, owned_by

R = TypeVar("R", bound=Record)
T = TypeVar("T")
Key: TypeAlias = tuple[Any, ...]  # values of the fields of the key
_Back: TypeAlias = tuple[Callable[..., object], *tuple[Any, ...]]  # what undoes a change, with its arguments


_ANY = Not(value=None)
_GROUPED: Mapping[type[Record], tuple[str, ...]] = {
    Call: ("run_id",),
    HookVerdict: ("run_id",),
    Member: ("entity_id",),
}
"""Further fields, besides the owner and unique ones, by whose value rows are found. None of them ever changes."""
_OPEN: Mapping[type[Record], frozenset[str]] = {
    InboxEvent: frozenset({"pending", "processing"}),
    Call: frozenset({"pending"}),
}
"""Statuses of the rows of a thread that are also in a group of their own, `open_in`."""
_OF_THREAD = (Message, MessageVersion, InboxEvent, File, ThreadValue, Compaction, SentText, Call)
"""Classes of the rows that are deleted with a thread, in addition to its runs, steps and values."""


class Table(Generic[R]):
    """The rows of a class by key, and the keys of the rows of a group."""

    def __init__(self, kind: type[R], log: list[_Back]) -> None:
        self.rows: dict[Key, R] = {}
        self._key, self._unique, self._log = kind.STORED.key, kind.STORED.unique, log
        self.key_of: Callable[[R], Key] = _key_getter(self._key)
        self._groups: dict[str, dict[object, dict[Key, None]]] = {}
        self._fixed: list[tuple[bool, Callable[[Any], object], dict[object, dict[Key, None]]]] = []
        for name in (kind.STORED.owner, *self._unique, *_GROUPED.get(kind, ())):
            if name:
                keys = self._groups[name] = {}
                is_key = name in self._key
                of = itemgetter(self._key.index(name)) if is_key else attrgetter(name)
                self._fixed.append((is_key, of, keys))
        self._open = _OPEN.get(kind)
        self._open_in: dict[object, dict[Key, None]] = {}
        if self._open:
            self._groups["open_in"] = self._open_in

    def get(self, *key: object) -> R | None:
        """Return the row with that key."""
        return self.rows.get(key)

    def of(self, name: str, value: object) -> list[R]:
        """Return the rows of a group, in the order in which they were inserted."""
        rows = self.rows
        return [rows[key] for key in self._groups[name].get(value, ())]

    def put(self, key: Key, row: R) -> None:
        """Insert or replace a row."""
        rows = self.rows
        old = rows.get(key)
        rows[key] = row
        self._log.append((self.restore, key, old))
        if old is None:
            for is_key, of, keys in self._fixed:
                value = of(key if is_key else row)
                group = keys.get(value)
                if group is None:
                    keys[value] = {key: None}
                else:
                    group[key] = None
        status = self._open
        if status and (row.status in status or (old is not None and old.status in status)):  # type: ignore[attr-defined]  # only rows with a status
            self._open_or_close(key, old, row)

    def drop(self, key: Key) -> R | None:
        """Delete a row, if it exists."""
        old = self.rows.get(key)
        if old is not None:
            self._log.append((self.restore, key, old))
            self.restore(key, None)
        return old

    def is_taken(self, key: Key, row: R) -> bool:
        """Return whether another row has the key of this one, or the same value of a unique field."""
        if key in self.rows:
            return True
        for name in self._unique:
            value = getattr(row, name)
            if value is not None and self._groups[name].get(value):
                return True
        return False

    def select(self, where: Where) -> list[tuple[Key, R]]:
        """Return the rows that meet the conditions, with their keys."""
        if isinstance(where, tuple):
            return [*{key: (key, row) for each in where for key, row in self.select(each)}.values()]
        rows, first = self.rows, where.get(self._key[0])
        if type(first) is str and len(self._key) == 1:
            row = rows.get((first,))
            is_met = row is not None and (len(where) == 1 or matches_all(row, where.items()))
            return [((first,), row)] if row is not None and is_met else []
        keys, known = self._candidates(where)
        rest = [(name, each) for name, each in where.items() if name not in known]
        found: list[tuple[Key, R]] = []
        for key in keys:
            row = rows.get(key)
            if row is not None and (not rest or matches_all(row, rest)):
                found.append((key, row))
        return found

    def _candidates(self, where: Mapping[str, object]) -> tuple[Iterable[Key], Sequence[str]]:
        """Return keys among which the rows are, and the names of the conditions that these all meet."""
        named = [where.get(name, _ANY) for name in self._key]
        if all(isinstance(each, OneOf) or not isinstance(each, Test) for each in named):
            every = [each.values if isinstance(each, OneOf) else (each,) for each in named]
            return dict.fromkeys(product(*every)), self._key
        status, thread_id = where.get("status"), where.get("thread_id")
        if self._open and isinstance(status, str) and status in self._open and isinstance(thread_id, str):
            return [*self._open_in.get(thread_id, ())], ("thread_id",)
        for name, keys in self._groups.items():
            wanted = where.get(name)
            if isinstance(wanted, str):
                return [*keys.get(wanted, ())], (name,)
            if isinstance(wanted, OneOf):
                return [key for value in wanted.values for key in keys.get(value, ())], (name,)
        return [*self.rows], ()

    def restore(self, key: Key, row: R | None) -> None:
        """Write the row that was there before, or delete the row if there was none."""
        old = self.rows.pop(key, None)
        if row is not None:
            self.rows[key] = row
        some = old if row is None else row
        if some is not None and (old is None or row is None):
            for is_key, of, keys in self._fixed:
                _regroup(keys, key, of(key if is_key else some), is_in=row is not None)
        if self._open is not None:
            self._open_or_close(key, old, row)

    def _open_or_close(self, key: Key, old: Any, row: Any) -> None:  # rows with a status and a thread
        if old is not None and old.status in (self._open or ()):
            _regroup(self._open_in, key, old.thread_id, is_in=False)
        if row is not None and row.status in (self._open or ()):
            _regroup(self._open_in, key, row.thread_id, is_in=True)


def _key_getter(names: Sequence[str]) -> Callable[[Any], Key]:  # a row of any class
    if len(names) > 1:
        return attrgetter(*names)
    of = attrgetter(names[0])
    return lambda row: (of(row),)


def _regroup(keys: dict[object, dict[Key, None]], key: Key, value: object, *, is_in: bool) -> None:
    group = keys.setdefault(value, {})
    if is_in:
        group[key] = None
        return
    group.pop(key, None)
    if not group:
        del keys[value]


class _Tables(dict[type[Record], Table[Any]]):  # of each class
    """The tables by class, each created when it is first used."""

    def __init__(self, log: list[_Back]) -> None:
        super().__init__()
        self._log = log

    def __missing__(self, kind: type[Record]) -> Table[Any]:
        table = self[kind] = Table(kind, self._log)
        return table


class MemoryRows:
    """All rows of a journal, its events and counters.

    `log` has what undoes each change of a unit; it is emptied when a unit begins.
    """

    def __init__(self) -> None:
        self.log: list[_Back] = []
        self._tables = _Tables(self.log)
        self.events: defaultdict[str, list[RunEvents]] = defaultdict(list)
        self.space_events: list[Event] = []
        self.digests: defaultdict[str, set[str]] = defaultdict(set)
        self._last_space_event = self._last_place = 0
        self._actions: dict[type, Callable[[Any], list[Any]]] = {
            Put: self._put,
            Add: self._add,
            Delete: self._delete,
            Find: self._find,
            Move: self._move,
            Clear: self._clear,
            Tell: self._tell,
            Append: self._append,
            Archive: self._archive,
            Sweep: self._sweep,
            Publish: self._publish,
            Descendants: lambda operation: self.descendants(operation.thread_id),
            LateCalls: self._pending_calls,
            Lock: _nothing,
            Swept: _nothing,
        }
        # tables of a worker's units, which need no search for them
        self.threads, self.runs, self.steps = self.of(Thread), self.of(Run), self.of(Step)
        self.calls, self.messages, self.inbox = self.of(Call), self.of(Message), self.of(InboxEvent)

    def of(self, kind: type[R]) -> Table[R]:
        """Return the rows of a class."""
        return self._tables[kind]

    def undo(self) -> None:
        """Undo all changes since the unit began."""
        for back, *arguments in reversed([*self.log]):
            back(*arguments)
        self.log.clear()

    def run(self, rule: Rule[T]) -> T:
        """Execute a rule and return its result."""
        actions = self._actions
        try:
            operations = next(rule)
            while True:
                action = actions.get(type(operations))
                if action is not None:
                    operations = rule.send(action(operations))
                else:
                    every: Any = operations.operations if isinstance(operations, Batch) else operations
                    found = [actions[type(each)](each) for each in every]
                    operations = rule.send([rows[0] if rows else None for rows in found])
        except StopIteration as stop:
            return cast("T", stop.value)

    async def one(self, kind: type[R], *key: object) -> R | None:
        """Return the row with that key."""
        return self.of(kind).rows.get(key)

    async def first(self, kind: type[R], where: Where) -> R | None:
        """Return a row that meets the conditions."""
        rows = self._select(kind, where)
        return rows[0] if rows else None

    async def find(
        self,
        kind: type[R],
        where: Where,
        order: tuple[str, ...] = (),
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[R]:
        """Return the rows that meet the conditions, or a page of them."""
        rows = _in_order(self._select(kind, where), order)
        return rows if limit is None else rows[offset : offset + limit]

    async def readable(
        self, kind: type[R], where: Where, order: tuple[str, ...] = (), *, limit: int | None = None
    ) -> list[R]:
        """Return the rows that meet the conditions."""
        return await self.find(kind, where, order, limit=limit)

    async def distinct(self, kind: type[R], columns: tuple[str, ...], where: Where) -> list[R]:
        """Return the rows that meet the conditions."""
        return await self.find(kind, where)

    def _select(self, kind: type[R], where: Where) -> list[R]:
        alternatives = where if isinstance(where, tuple) else (where,)
        if any(isinstance(each, Among) for one in alternatives for each in one.values()):
            where = tuple([{name: self._known(each) for name, each in one.items()} for one in alternatives])
        return [row for _, row in self.of(kind).select(where)]

    def _known(self, condition: object) -> object:
        if not isinstance(condition, Among):
            return condition
        rows = self._select(condition.kind, condition.where)
        return OneOf(values=list(dict.fromkeys([getattr(row, condition.column) for row in rows])))

    def perform(self, operation: Operation) -> list[Any]:  # rows of any class
        """Execute one operation and return its rows."""
        return self._actions[type(operation)](operation)

    def children(self, thread_id: str) -> list[Thread]:
        """Return the children of the thread, oldest first."""
        return sorted(self.of(Thread).of("parent_id", thread_id), key=lambda row: (row.created_at, row.id))

    def lineage(self, thread_id: str) -> list[Thread]:
        """Return the ancestors of the thread, nearest first."""
        above, row = list[Thread](), self.of(Thread).get(thread_id)
        while row is not None and row.parent_id is not None:
            row = self.of(Thread).get(row.parent_id)
            above += [] if row is None else [row]
        return above

    def descendants(self, thread_id: str) -> list[str]:
        """Return the ids of all descendants of the thread."""
        ids = [row.id for row in self.children(thread_id)]
        return [*ids, *[each for child in ids for each in self.descendants(child)]]

    def _put(self, operation: Put) -> list[Any]:
        record = operation.record
        table = self._tables[type(record)]
        key = table.key_of(record)
        stored = table.rows.get(key)
        if stored is not None:
            kept = {name: getattr(stored, name) for name in record.STORED.kept}
            kept |= new_values(stored, operation.merged)
            record = replace(record, **kept) if kept else record
        self._write(table, key, record)
        return []

    def _add(self, operation: Add) -> list[Any]:
        record = operation.record
        table = self._tables[type(record)]
        key = table.key_of(record)
        if table.is_taken(key, record):
            return _counted([], operation.guard)
        self._write(table, key, record)
        return [record]

    def _write(self, table: Table[Any], key: Key, record: Record) -> None:
        """Write a row. A thread keeps the bytes of all its files, since messages can refer to them."""
        table.put(key, record)
        if isinstance(record, File):
            self.digests[record.thread_id].add(record.digest)

    def _delete(self, operation: Delete) -> list[Any]:
        old = self.of(operation.kind).drop(operation.key)
        _counted([] if old is None else [old], operation.guard)
        return []

    def _find(self, operation: Find) -> list[Any]:
        rows = _in_order([row for _, row in self.of(operation.kind).select(operation.where)], operation.order)
        return _counted(rows[: operation.limit], operation.guard)

    def _clear(self, operation: Clear) -> list[Any]:
        table = self.of(operation.kind)
        rows = _counted([table.drop(key) for key, _ in table.select(operation.where)], operation.guard)
        return rows if operation.returns else []

    def _tell(self, operation: Tell) -> list[Any]:
        events: Any = operation.events  # those of a unit
        stored = self.events[events.thread_id]
        stored.append(events)
        self.log.append((stored.pop,))
        return []

    def _append(self, operation: Append) -> list[Any]:
        table = self.of(Message)
        for seq, message in enumerate(operation.messages, operation.first):
            table.put((operation.thread_id, seq), changed(message, seq=seq))
        return []

    def _move(self, operation: Move) -> list[Any]:
        table, rows = self._tables[operation.kind], list[Record]()
        for key, row in table.select(operation.where):
            new = replace(row, **new_values(row, operation.fields))
            rows.append(new)
            table.put(key, new)
        _counted(rows, operation.guard)
        return rows if operation.returns else []

    def _archive(self, operation: Archive) -> list[Any]:
        passage, vector = operation.passage, operation.vector
        self._last_place += 1
        row = PassageRow(place=self._last_place, agent_id=passage.agent_id, id=passage.id, passage=passage)
        if vector is not None:
            row = changed(row, embedder=vector.embedder, floats=vector.floats)
        return self._add(Add(record=row))

    def _pending_calls(self, wanted: LateCalls) -> list[Call]:
        threads, calls = self.of(Thread).rows.values(), self.of(Call)
        if wanted.agent_id is not None:
            ids = [row.id for row in threads if row.answering == wanted.agent_id]
        else:
            ids = [str(wanted.thread_id)]
            ids += self.descendants(ids[0]) if wanted.family else []
        return [call for thread_id in ids for call in calls.of("open_in", thread_id)]

    def _publish(self, operation: Publish) -> list[Event]:
        events = operation.events
        first = self._last_space_event + 1
        numbered = [changed(event, n=n) for n, event in enumerate(events, first)]
        self.log.append((self._unpublish, len(self.space_events)))
        self.space_events += numbered
        self._last_space_event += len(numbered)
        return numbered

    def _unpublish(self, length: int) -> None:
        self._last_space_event -= len(self.space_events) - length
        del self.space_events[length:]

    def _sweep(self, operation: Sweep) -> list[Any]:
        """Delete the rows of a deleted thread, space or agent at once, because that is fast in memory."""
        note = operation.note
        if note.startswith(AGENT):
            self._drop(PassageRow, "agent_id", note.removeprefix(AGENT))
        elif note.startswith(SPACE):
            for message in self._drop(SpaceMessage, "space_id", note.removeprefix(SPACE)):
                self._drop(Reaction, "message_id", message.id)
        else:
            for kind in (*_OF_THREAD, *owned_by("thread_id")):
                self._drop(kind, "thread_id", note)
            self._drop(EnvRow, "owner", note)
            for run in self._drop(Run, "thread_id", note):
                self._drop(Step, "run_id", run.id)
            self.events.pop(note, None)
            for digest in self.digests.pop(note, ()):
                self._put(Put(record=DroppedBytes(digest=digest, at=operation.at)))
        return []

    def _drop(self, kind: type[R], name: str, value: str) -> list[R]:
        table = self.of(kind)
        rows = table.select({name: value})
        for key, _ in rows:
            table.drop(key)
        return [row for _, row in rows]


def _in_order(rows: list[R], order: tuple[str, ...]) -> list[R]:
    """Sort the rows by these fields, in descending order if the names have a minus in front."""
    if order:
        names = [name.removeprefix("-") for name in order]
        rows.sort(key=attrgetter(*names), reverse=names[0] != order[0])
    return rows


def _nothing(_: object) -> list[Any]:  # rows of any class
    """Do nothing: there is one writer, and a deletion leaves no rows to sweep."""
    return []


def _counted(rows: list[Any], guard: Guard | None) -> list[Any]:
    """Return the rows. With a guard there must be one."""
    if guard is not None and len(rows) != 1:
        raise GuardFailed(guard)
    return rows
