"""Records of each class in every journal: written, listed in order and deleted by the effects that need no name."""

from typing import Any

import pytest
from tests.conformance.test_spaces import act
from tests.play import AT, committed, later

from toolwright.adapters.store.sql.records import RECORDS
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.env.env import SigningKey
from toolwright.core.hooks import HookVerdict
from toolwright.core.journal.rows import Add, Delete, Put
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict
from toolwright.core.mcp.servers import McpTask
from toolwright.core.spaces import FrontEnd
from toolwright.core.value import Record, changed, key_of

pytestmark = pytest.mark.anyio


def _goal(owner: str, n: int) -> Goal:
    text = f"text {n}"
    return Goal(
        agent_id=owner, id=f"gol_{n}", description=text, status="", priority="", created_at=later(3 - n)
    )


def _memory(owner: str, n: int) -> Memory:
    return Memory(agent_id=owner, key=f"key {9 - n}", value="v", updated_at=AT)


def _plan(owner: str, n: int) -> Plan:
    return Plan(
        agent_id=owner, id=f"pln_{n}", name="p", instruction="i", next_run_at=later(3 - n), created_at=AT
    )


def _front_end(owner: str, n: int) -> FrontEnd:
    return FrontEnd(id=f"cli_{owner}_{n}", entity_id=owner, metadata={"n": n}, created_at=later(3 - n))


def _task(owner: str, n: int) -> McpTask:
    call_id = f"call_{owner}_{n}"
    return McpTask(
        call_id=call_id, thread_id=owner, agent_id="a", server="s", task_id="t", created_at=later(3 - n)
    )


def _signing_key(owner: str, n: int) -> SigningKey:
    return SigningKey(entity_id=owner, name=f"key {9 - n}", key="k", created_at=AT)


def _verdict(owner: str, n: int) -> HookVerdict:
    return HookVerdict(
        id=f"vrd_{owner}_{n}",
        thread_id=owner,
        run_id="run",
        step=n,
        hook="guard",
        point="before_call",
        ruling="denied",
        created_at=later(3 - n),
    )


MADE: dict[type[Record], Any] = {  # functions that create the nth record of an owner; later ones sort first
    Goal: _goal,
    Memory: _memory,
    Plan: _plan,
    FrontEnd: _front_end,
    McpTask: _task,
    HookVerdict: _verdict,
    SigningKey: _signing_key,
}


def test_every_class_of_records_is_tried() -> None:
    assert MADE.keys() == RECORDS.keys()


@pytest.mark.parametrize("kind", RECORDS)
def test_the_names_of_a_class_are_columns_of_its_table(kind: type[Record]) -> None:
    table, stored = RECORDS[kind].table, kind.STORED
    assert tuple(table.primary_key.columns.keys()) == stored.key
    assert {stored.owner, *stored.order, *stored.kept} <= {*table.columns.keys()}
    assert set(table.primary_key.columns.keys()) <= {stored.owner, *stored.order}, "the order is unique"


@pytest.mark.parametrize("kind", RECORDS)
async def test_records_are_listed_by_owner_in_order_and_deleted_by_key(
    store: Store, kind: type[Record]
) -> None:
    records = store.records
    one, two, three, other = (MADE[kind](owner, n) for owner, n in (("o", 1), ("o", 2), ("o", 3), ("p", 1)))
    await committed(store, act(*[Put(record=each) for each in (one, three, other, two)]))
    assert list(await records.list(kind, "o")) == [three, two, one]
    assert list(await records.list(kind, "o", limit=1, offset=1)) == [two]
    assert len(await records.list(kind)) == 4
    assert await records.one(kind, *key_of(two)) == two
    await committed(store, act(Delete(kind=kind, key=key_of(two)), Delete(kind=kind, key=key_of(two))))
    assert (list(await records.list(kind, "o")), await records.one(kind, *key_of(two))) == (
        [three, one],
        None,
    )
    assert list(await records.list(kind, "p")) == [other]


@pytest.mark.parametrize("kind", RECORDS)
async def test_a_record_that_must_be_new_or_there_refuses_its_unit(store: Store, kind: type[Record]) -> None:
    one, two = MADE[kind]("o", 1), MADE[kind]("o", 2)
    await committed(store, act(Add(record=one)))
    assert await store.commit(act(Put(record=two), Add(record=one))) == Conflict(guard="duplicate")
    missing = Delete(kind=kind, key=key_of(two), guard="front_end")
    assert await store.commit(act(Delete(kind=kind, key=key_of(one)), missing)) == Conflict(guard="front_end")
    assert list(await store.records.list(kind, "o")) == [one]
    await committed(store, act(Delete(kind=kind, key=key_of(one), guard="front_end"), Add(record=one)))
    assert list(await store.records.list(kind, "o")) == [one]


@pytest.mark.parametrize("kind", RECORDS)
async def test_an_update_keeps_the_fields_that_its_class_names(store: Store, kind: type[Record]) -> None:
    one = MADE[kind]("o", 1)
    field = "updated_at" if kind is Memory else "created_at"
    newer = changed(one, **{field: later(7)})
    await committed(store, act(Put(record=one), Put(record=newer)))
    expected = one if field in kind.STORED.kept else newer
    assert list(await store.records.list(kind, "o")) == [expected]
