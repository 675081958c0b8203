"""Row operations: what effects do to the journal's rows, written once and interpreted in memory and as SQL.

A rule is a generator of row operations. It receives the rows that an operation found or wrote, as objects with the
fields that were asked for, and decides what to do next. A failed precondition is a `guard`, or `GuardFailed`.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from toolwright.core.agents.memory import Passage, Vector
from toolwright.core.threads.event import Event
from toolwright.core.threads.message import Message
from toolwright.core.value import Record, Value

T = TypeVar("T")

Guard: TypeAlias = Literal[
    "duplicate",  # a row with this id or external id exists
    "thread",  # the thread does not exist
    "terminated",  # the thread accepts no more messages
    "lease",  # another node of the cluster has the thread now
    "fence",  # another worker has claimed the thread, or it has advanced
    "call",  # a call is not in the status that the unit saw
    "run",  # the status of the run does not allow this unit
    "inbox",  # an inbox event is not in the status that the unit saw
    "unread",  # a message that joined the run has not been read
    "file",  # a file exists at this path
    "entity",  # the entity does not exist, or has changed since it was read
    "space",  # the space does not exist, or it or its membership has changed since it was read
    "member",  # the entity is not in the space
    "agent",  # the configured agent does not exist, or has changed since it was read
    "front_end",  # the client registration does not exist
    "mind",  # the agent's goals, memories, plans or blocks have changed since they were read, or are too many
    "plan",  # the plan does not exist, or has changed since it was read
    "block",  # the memory block does not exist
    "passage",  # the passage does not exist
    "compaction",  # the conversation was shortened in the meantime, or its summary was edited
    "mcp_tool",  # the definition of the tool is not held back any more
    "message",  # the message does not exist in the space or thread, or too many are pinned
    "busy",  # a thread that was idle has an open run now
    "request",  # the request is no longer open
    "child_limit",  # the maximum number of children is reached
    "deps",  # the run that a message would join has other deps
    "cancel",  # cancellation was requested, and this unit would end the run in another way
]


class GuardFailed(Exception):
    """A precondition failed: the unit must be rolled back completely."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard)
        self.guard: Guard = guard


class Test(Value):
    """Base of conditions of a column other than that it has one value."""

    if TYPE_CHECKING:  # each subclass defines it

        def holds(self, stored: Any) -> bool:  # the value of a field of any type
            """Return whether the stored value meets the condition."""
            ...


class Not(Test):
    """Condition of a column: it has another value, or none. `Not(value=None)`: it has any value."""

    value: object

    def holds(self, stored: object) -> bool:
        return stored != self.value


class OneOf(Test):
    """Condition of a column: it has one of the values, which are not None."""

    values: Sequence[object]

    def holds(self, stored: object) -> bool:
        return stored in self.values


class NoneOf(Test):
    """Condition of a column: it has none of the values."""

    values: Sequence[object]

    def holds(self, stored: object) -> bool:
        return stored not in self.values


class UpTo(Test):
    """Condition of a column: it has a value, at most this one."""

    value: Any  # of the column's type

    def holds(self, stored: Any) -> bool:  # as above
        return stored is not None and stored <= self.value


class Beyond(Test):
    """Condition of a column: it has no value, or a greater one."""

    value: Any  # as above

    def holds(self, stored: Any) -> bool:  # as above
        return stored is None or stored > self.value


class Above(Test):
    """Condition of a column: it has a value, greater than this one."""

    value: Any  # as above

    def holds(self, stored: Any) -> bool:  # as above
        return stored is not None and stored > self.value


class Below(Test):
    """Condition of a column: it has a value, less than this one."""

    value: Any  # as above

    def holds(self, stored: Any) -> bool:  # as above
        return stored is not None and stored < self.value


class Among(Value):
    """Condition of a column in a read: its value is that of `column` in a row of the other class that meets `where`."""

    kind: type[Record]
    column: str
    where: "Where"


Where: TypeAlias = Mapping[str, object] | tuple[Mapping[str, object], ...]
"""Conditions by column, each a value or a `Test`; all must hold. Of several mappings, one must hold."""


def matches(row: object, where: Where) -> bool:
    """Return whether a row meets the conditions."""
    if isinstance(where, tuple):
        return any(matches_all(row, each.items()) for each in where)
    return matches_all(row, where.items())


def matches_all(row: object, conditions: Iterable[tuple[str, object]]) -> bool:
    """Return whether a row meets all conditions, each of a column."""
    for name, wanted in conditions:
        stored = getattr(row, name)
        if not (wanted.holds(stored) if isinstance(wanted, Test) else stored == wanted):
            return False
    return True


class Change(Value):
    """Base of new values of a column that depend on the stored row."""

    if TYPE_CHECKING:  # each subclass defines it

        def applied(self, stored: Any, row: object) -> Any:  # values of a field of any type
            """Return the new value, given the stored one and its row."""
            ...


class More(Change):
    """New value of a column: the stored number plus this one."""

    by: int

    def applied(self, stored: Any, row: object) -> Any:  # a number
        return stored + self.by if self.by else stored


class Once(Change):
    """New value of a column: this one, if it has none."""

    value: object

    def applied(self, stored: Any, row: object) -> Any:  # of the column's type
        return self.value if stored is None else stored


class Least(Change):
    """New value of a column: the lesser of the stored value and this one."""

    value: Any  # of the column's type

    def applied(self, stored: Any, row: object) -> Any:  # as above
        return min(stored, self.value)


class Most(Change):
    """New value of a column: the greater of the stored value and this one."""

    value: Any  # as above

    def applied(self, stored: Any, row: object) -> Any:  # as above
        return max(stored, self.value)


class If(Change):
    """New value of a column if the row, as it was, meets the conditions. Otherwise `other`, or the stored value."""

    when: Where
    then: object
    other: object = More(by=0)

    def applied(self, stored: Any, row: object) -> Any:  # as above
        change = self.then if matches(row, self.when) else self.other
        return change.applied(stored, row) if isinstance(change, Change) else change


def new_values(row: object, changes: Mapping[str, object]) -> dict[str, Any]:  # of the types of the fields
    """Return the values of these fields after the changes."""
    return {
        name: change.applied(getattr(row, name), row) if isinstance(change, Change) else change
        for name, change in changes.items()
    }


class Put(Value):
    """Insert or update a record. In an update the columns of `merged` get their new values from the stored ones."""

    record: Record
    merged: Mapping[str, Change] = {}


class Add(Value):
    """Insert a record. Conflict: `duplicate`, if its key exists. Without a `guard` the existing record is kept."""

    record: Record
    guard: Guard | None = "duplicate"


class Delete(Value):
    """Delete the record with that key, if it exists. Conflict: the `guard`, if one is given and it does not exist."""

    kind: type[Record]
    key: tuple[str, ...]
    guard: Guard | None = None


class Find(Value):
    """Read at most `limit` rows, in `order`, all columns or those named.

    With `lock` no other unit writes them before this commit. Conflict: the `guard`, if one is given and there is not
    one row.
    """

    kind: type[Record]
    where: Where
    columns: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    limit: int | None = None
    lock: Literal["update", "share"] | None = None
    guard: Guard | None = None


class Move(Value):
    """Update rows. Returns the columns `returns` of the changed rows.

    Conflict: the `guard`, if one is given and there is not one row.
    """

    kind: type[Record]
    where: Where
    fields: Mapping[str, object]
    returns: tuple[str, ...] = ()
    guard: Guard | None = None


class Clear(Value):
    """Delete rows. Returns the columns `returns` of the deleted rows."""

    kind: type[Record]
    where: Where
    returns: tuple[str, ...] = ()
    guard: Guard | None = None


class Lock(Value):
    """Wait until no other unit holds the lock of that name."""

    name: str


class Archive(Value):
    """Insert a passage as the newest of its agent, with its search index. Conflict: `duplicate`, if the id exists."""

    passage: Passage
    vector: Vector | None = None


class Sweep(Value):
    """Mark the many rows of a deleted thread, space or agent, to be deleted later in batches. Its note identifies it.

    With `now` they are deleted in this unit.
    """

    note: str
    at: datetime
    now: bool = False


class Swept(Value):
    """Return the note of `Sweep` if rows are left."""

    note: str


class Tell(Value):
    """Insert events of a thread, which are numbered already."""

    events: Sequence[Event]


class Append(Value):
    """Insert messages of a new thread, at the positions from `first` on."""

    thread_id: str
    first: int
    messages: Sequence[Message]


class Publish(Value):
    """Insert events of spaces. Returns them, numbered unless the store numbers them later. `token` is the unit's."""

    events: Sequence[Event]
    token: str


class Descendants(Value):
    """Return the ids of all descendants of a thread."""

    thread_id: str


class LateCalls(Value):
    """Return the calls that still accept a late result: of a thread, of its family too, or for an agent."""

    thread_id: str | None = None
    family: bool = False
    agent_id: str | None = None


class Batch(Value):
    """All operations of a unit, none of which depends on another: a store can execute them as one statement."""

    operations: Sequence["Operation"]


Operation: TypeAlias = (
    Put
    | Add
    | Delete
    | Find
    | Move
    | Clear
    | Lock
    | Archive
    | Sweep
    | Swept
    | Tell
    | Append
    | Publish
    | Descendants
    | LateCalls
)
Rule: TypeAlias = Generator["Operation | Sequence[Operation] | Batch", list[Any], T]  # rows of any class
"""Of several operations at once, the rule receives one row each, or None."""


class RowEffect(Value):
    """Base of effects that are rules: values that are committed with a unit and change rows by a rule."""

    if TYPE_CHECKING:  # each subclass defines it

        def rule(self, at: datetime) -> Rule[None]:
            """Yield the row operations. `at` is the timestamp of the unit."""
            ...
