"""Records of each class in every journal: written, listed in order and deleted by the effects that need no name."""

from typing import Any

import pytest
from tests.conformance.test_spaces import act
from tests.play import AT, committed, create_thread, later, token

from toolwright.adapters.store.sql.records import RECORDS
from toolwright.core.agents.mind import Goal, Memory, Plan
from toolwright.core.env.redact import Redactor
from toolwright.core.journal.effects import Add, Delete, DropMind, Put
from toolwright.core.journal.retention import DropThread, SweepThreads
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict, DropEntity, SaveEntity
from toolwright.core.mcp.servers import McpTask
from toolwright.core.spaces import Entity, FrontEnd
from toolwright.core.value import Record, changed, key_of
from toolwright.runtime.env import clean_effect

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


MADE: dict[type[Record], Any] = {  # functions that create the nth record of an owner; later ones sort first
    Goal: _goal,
    Memory: _memory,
    Plan: _plan,
    FrontEnd: _front_end,
    McpTask: _task,
}


def test_every_class_of_records_is_tried() -> None:
    assert MADE.keys() == RECORDS.keys()


@pytest.mark.parametrize("kind", RECORDS)
def test_the_names_of_a_class_are_columns_of_its_table(kind: type[Record]) -> None:
    table, stored = RECORDS[kind].table, kind.STORED
    assert tuple(table.primary_key.columns.keys()) == stored.key
    assert {stored.owner, *stored.order, *stored.kept, *stored.texts} <= {*table.columns.keys()}
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


SECRET = "tok-5f2a91c47be0"


def _with_secret(kind: type[Record]) -> Record:
    """Return a record of the class with a secret in each of its texts."""
    return changed(MADE[kind]("o", 1), **{name: f"{name} {SECRET}" for name in kind.STORED.texts})


@pytest.mark.parametrize("kind", RECORDS)
def test_the_texts_that_a_class_names_are_redacted_before_a_record_is_put_or_added(
    kind: type[Record],
) -> None:
    record, redactor = _with_secret(kind), Redactor([("KEY", SECRET)])
    redacted = changed(record, **{name: f"{name} [redacted:KEY]" for name in kind.STORED.texts})
    assert clean_effect(Put(record=record), redactor) == Put(record=redacted)
    assert clean_effect(Add(record=record), redactor) == Add(record=redacted)


def test_the_classes_with_texts_that_models_write_name_them() -> None:
    assert {kind for kind in RECORDS if kind.STORED.texts} == {Goal, Memory, Plan}


async def _delete_owner(store: Store, kind: type[Record], owner: str) -> None:
    """Delete the agent's mind, the person or the thread with that id."""
    match kind.STORED.owner:
        case "agent_id":
            await committed(store, act(DropMind(agent_id=owner)))
        case "entity_id":
            await committed(store, DropEntity(token=token(), at=AT, entity_id=owner))
        case "thread_id":
            await committed(store, DropThread(token=token(), at=AT, thread_id=owner))
            while (await committed(store, SweepThreads(token=token(), at=AT, limit=1_000))).count:
                pass


@pytest.mark.parametrize("kind", RECORDS)
async def test_records_are_deleted_with_their_owner_and_no_others(store: Store, kind: type[Record]) -> None:
    for owner in ("o", "p"):
        await create_thread(store, owner)
        person = Entity(id=owner, type="human", external_id=owner, metadata={}, created_at=AT, updated_at=AT)
        await committed(store, SaveEntity(token=token(), at=AT, entity=person))
    other = MADE[kind]("p", 1)
    records = [MADE[kind]("o", 1), MADE[kind]("o", 2), other]
    await committed(store, act(*[Put(record=each) for each in records]))
    await _delete_owner(store, kind, "o")
    assert list(await store.records.list(kind)) == [other]


@pytest.mark.parametrize("kind", RECORDS)
async def test_a_record_that_is_deleted_and_added_again_in_one_unit_is_the_added_one(
    store: Store, kind: type[Record]
) -> None:
    one, field = MADE[kind]("o", 1), "updated_at" if kind is Memory else "created_at"
    newer = changed(one, **{field: later(7)})
    await committed(store, act(Put(record=one), Delete(kind=kind, key=key_of(one)), Add(record=newer)))
    assert list(await store.records.list(kind, "o")) == [newer], "no field of the deleted record is kept"
    await committed(store, act(Delete(kind=kind, key=key_of(one)), Add(record=one)))
    assert list(await store.records.list(kind, "o")) == [one]
