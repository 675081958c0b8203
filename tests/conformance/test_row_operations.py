"""Random row operations: the same conflicts, results and rows in every store, and no trace of a refused unit.

A unit leaves the rows that its operations leave when they are committed one by one.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from tests.conformance.test_spaces import act
from tests.play import AT

from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.core.agents.memory import Block
from toolwright.core.journal.rows import (
    Above,
    Add,
    Among,
    Below,
    Beyond,
    Clear,
    Delete,
    Find,
    If,
    Least,
    More,
    Most,
    Move,
    NoneOf,
    Not,
    Once,
    OneOf,
    Operation,
    Put,
    RowEffect,
    Rule,
    UpTo,
    Where,
)
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict
from toolwright.core.spaces import Entity, Member
from toolwright.core.threads.thread import Wake
from toolwright.core.value import Record, Value

pytestmark = pytest.mark.anyio

KINDS: tuple[type[Record], ...] = (Member, Wake, Block, Entity)
UNITS = 40


class Operations(RowEffect):
    """Execute operations, each alone or several at once. `found` receives the rows of each."""

    operations: tuple[Operation | Sequence[Operation], ...]
    found: list[Any]  # rows of any class

    def rule(self, at: datetime) -> Rule[None]:
        for each in self.operations:
            rows = yield each
            if isinstance(each, Find | Move | Clear):
                self.found.append(sorted([plain(row, each) for row in rows]))
            elif isinstance(each, Add):
                self.found.append(len(rows))
            elif not isinstance(each, Value):
                self.found.append([row is not None for row in rows])


def plain(row: Any, operation: Find | Move | Clear) -> str:  # a row of any class
    columns = operation.columns if isinstance(operation, Find) else operation.returns
    return repr([getattr(row, name) for name in columns])


def member(random: Random) -> Member:
    return Member(
        space_id=random.choice("st"),
        entity_id=random.choice("abc"),
        role=random.choice(("member", "owner")),
        read_seq=random.randrange(4),
        joined_at=AT,
    )


def wake(random: Random) -> Wake:
    due = AT + timedelta(seconds=random.randrange(4))
    return Wake(thread_id=f"timer:{random.choice('abc')}", due=due, gen=random.randrange(3), node=None)


def block(random: Random) -> Block:
    return Block(
        agent_id=random.choice("mn"), label=random.choice("abc"), content=random.choice("xy"), updated_at=AT
    )


def entity(random: Random) -> Entity:
    number = random.randrange(4)
    external_id, name = random.choice((None, "u1", "u2")), random.choice((None, "Ann"))
    return Entity(
        id=f"e{number}", type="human", external_id=external_id, display_name=name, metadata={"n": number},
        created_at=AT, updated_at=AT,
    )  # fmt: skip


MADE: dict[type[Record], Any] = {Member: member, Wake: wake, Block: block, Entity: entity}
CHANGED: dict[type[Record], tuple[str, ...]] = {  # columns that operations change
    Member: ("role", "read_seq"),
    Wake: ("due", "gen", "node"),
    Block: ("content",),
    Entity: ("display_name",),
}


def key_of(row: Record) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.STORED.key}


def where(random: Random, row: Record) -> Where:
    """Conditions that one row, some rows or none can meet."""
    name = random.choice(CHANGED[type(row)])
    value, key = getattr(row, name), key_of(row)
    tests: list[object] = [value, Not(value=value), Not(value=None), NoneOf(values=[value])]
    if value is not None:
        tests += [OneOf(values=[value])]
        tests += [each(value=value) for each in (UpTo, Beyond, Above, Below)]
    test = {name: random.choice(tests)}
    first = row.STORED.key[0]
    return random.choice(
        (
            key,
            {**key, **test},
            test,
            ({**key, **test}, {first: key[first]}),
            {first: OneOf(values=[key[first]])},
        )
    )


def change(random: Random, row: Record, name: str) -> object:
    value, test = getattr(row, name), where(random, row)
    changes: list[object] = [value, Once(value=value), If(when=test, then=value)]
    if isinstance(value, int):
        changes += [More(by=2), Most(value=value), If(when=test, then=More(by=1), other=Least(value=value))]
    if isinstance(value, datetime):
        changes += [Least(value=value), Most(value=value)]
    return random.choice(changes)


def operation(random: Random, kind: type[Record], *, of_one: bool = False) -> Operation:
    """Return a random operation; `of_one` makes it one on the row of a key."""
    row: Record = MADE[kind](random)
    guard = random.choice((None, "plan"))
    condition = key_of(row) if of_one else where(random, row)
    names = random.sample(CHANGED[kind], random.randint(1, len(CHANGED[kind])))
    returns = random.choice(((), (*kind.STORED.key, *names)))
    operations: list[Operation] = [
        Add(record=row, guard=random.choice((None, "duplicate"))),
        Delete(kind=kind, key=tuple([getattr(row, name) for name in kind.STORED.key]), guard=guard),
        Find(kind=kind, where=condition, columns=(*kind.STORED.key, *names), guard=guard),
        Move(kind=kind, where=condition, fields={name: change(random, row, name) for name in names},
             returns=returns, guard=guard),
        Clear(kind=kind, where=condition, returns=returns, guard=guard),
    ]  # fmt: skip
    if kind is not Entity:  # its unique field is checked by `Add` alone
        merged = {name: More(by=1) for name in ("gen", "read_seq") if name in names}
        operations.append(Put(record=row, merged=merged))
    return random.choice(operations)


def unit(random: Random) -> tuple[Operation | Sequence[Operation], ...]:
    def some() -> Operation | Sequence[Operation]:
        if random.random() < 0.2:  # several at once are on different rows
            return [operation(random, kind, of_one=True) for kind in random.sample(KINDS, 2)]
        return operation(random, random.choice(KINDS))

    return tuple([some() for _ in range(random.randint(1, 5))])


async def apply(
    store: Store, operations: tuple[Operation | Sequence[Operation], ...]
) -> tuple[Committed | Conflict, list[Any]]:
    found: list[Any] = []
    effect: Any = Operations(operations=operations, found=found)  # no effect of the product
    answer = await store.commit(act(effect))
    return answer, found if isinstance(answer, Committed) else []


async def rows_of(store: Store) -> list[Any]:
    finds = [
        Find(kind=kind, where={kind.STORED.key[0]: Not(value=None)}, columns=(*kind.STORED.key, *names))
        for kind, names in CHANGED.items()
    ]
    _, rows = await apply(store, tuple(finds))
    return rows


@pytest.mark.parametrize("seed", range(12))
async def test_random_operations_have_the_same_outcome_in_every_store(store: Store, seed: int) -> None:
    random, expected, one_by_one = Random(seed), MemoryStore(lambda _: None), MemoryStore(lambda _: None)
    conflicts = 0
    for _ in range(UNITS):
        operations, before = unit(random), await rows_of(store)
        outcome = await apply(store, operations)
        assert outcome == await apply(expected, operations), operations
        rows = await rows_of(store)
        assert rows == await rows_of(expected), operations
        if isinstance(outcome[0], Conflict):
            conflicts += 1
            assert rows == before
            continue
        for each in operations:
            await apply(one_by_one, (each,))
        assert rows == await rows_of(one_by_one), operations
    assert 0 < conflicts < UNITS


def read_where(random: Random, row: Record) -> Where:
    """Conditions of a read, which can refer to rows of another class."""
    joined = Among(kind=Member, column="entity_id", where={"space_id": random.choice("st")})
    return random.choice((where(random, row), {}, {row.STORED.key[-1]: joined}))


async def read(store: Store, row: Record, condition: Where, random: Random) -> list[Any]:
    """Return what each read of a random order and page finds."""
    kind, rows, key = type(row), store.rows, row.STORED.key
    order = random.choice((key, tuple([f"-{name}" for name in key])))
    limit, offset = random.choice((None, 0, 1, 2)), random.randrange(2)
    found = [
        await rows.find(kind, condition, order),
        await rows.find(kind, condition, order, limit=limit, offset=offset if limit else 0),
        await rows.readable(kind, condition, order, limit=limit),
        [await rows.one(kind, *[getattr(row, name) for name in key])],
    ]
    names = (*key, *CHANGED[kind])
    values = [[each and [getattr(each, name) for name in names] for each in some] for some in found]
    distinct = {getattr(each, key[0]) for each in await rows.distinct(kind, key[:1], condition)}
    is_found = await rows.first(kind, condition) is not None
    return [values, sorted(distinct), is_found]


@pytest.mark.parametrize("seed", range(6))
async def test_random_reads_have_the_same_rows_in_every_store(store: Store, seed: int) -> None:
    random, expected = Random(seed), MemoryStore(lambda _: None)
    found = 0
    for number in range(UNITS):
        operations = unit(random)
        assert await apply(store, operations) == await apply(expected, operations)
        row: Record = MADE[random.choice(KINDS)](random)
        condition = read_where(random, row)
        rows = await read(store, row, condition, Random(number))
        assert rows == await read(expected, row, condition, Random(number)), condition
        found += rows[-1]
    assert 0 < found < UNITS
