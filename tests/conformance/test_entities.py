"""Entities in every journal: saved, changed by compare-and-set, found by either id, deleted."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.play import AT, committed, create_thread, later, token
from tests.postgres_server import fresh_database

from toolwright.adapters.store.opening import open_postgres
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, DropEntity, SaveEntity
from toolwright.core.spaces import Entity

pytestmark = pytest.mark.anyio


def human(number: int = 1, **fields: Any) -> Entity:  # fields of Entity
    given: dict[str, Any] = {"external_id": f"user-{number}", "display_name": None, "metadata": {}}
    return Entity(
        id=f"ent_{number}",
        type="human",
        created_at=later(number),
        updated_at=later(number),
        **{**given, **fields},
    )


def save(entity: Entity, was: Entity | None = None) -> SaveEntity:
    return SaveEntity(token=token(), at=AT, entity=entity, was=was)


def drop(entity_id: str) -> DropEntity:
    return DropEntity(token=token(), at=AT, entity_id=entity_id)


async def test_an_entity_is_found_by_both_of_its_ids(store: Store):
    ada = human(1, display_name="A\x00da \ud800 \u2028 🧰", metadata={"\ud800": [None, 1.5, {"a": "\x00"}]})
    await committed(store, save(ada))
    assert await store.entity("ent_1") == ada
    assert await store.entity_by_external_id("user-1") == ada
    assert await store.entity("user-1") is None
    assert await store.entity_by_external_id("ent_1") is None


async def test_entities_are_listed_the_oldest_first_in_pages(store: Store):
    people = [human(number) for number in range(1, 6)]
    for one in reversed(people):
        await committed(store, save(one))
    assert list(await store.entities(limit=2)) == people[:2]
    assert list(await store.entities(limit=9, offset=3)) == people[3:]


async def test_an_id_or_an_external_id_is_there_once(store: Store):
    ada = human(1)
    await committed(store, save(ada))
    for other in (human(2, external_id="user-1"), human(1, external_id="user-2")):
        assert await store.commit(save(other)) == Conflict(guard="duplicate")
    assert list(await store.entities()) == [ada]
    for number in (3, 4):
        await committed(store, save(human(number, external_id=None)))
    assert len(await store.entities()) == 3


async def test_a_change_needs_the_entity_as_it_was_read(store: Store):
    ada, bob = human(1), human(2)
    await committed(store, save(ada))
    await committed(store, save(bob))
    changed = replace(ada, display_name="Ada", external_id="ada", updated_at=later(9))
    await committed(store, save(changed, was=ada))
    assert await store.entity("ent_1") == changed
    assert await store.entity_by_external_id("user-1") is None
    assert await store.commit(save(replace(ada, display_name="late"), was=ada)) == Conflict(guard="entity")
    assert await store.commit(save(human(7), was=human(7))) == Conflict(guard="entity")
    taken = replace(changed, external_id="user-2", updated_at=later(10))
    assert await store.commit(save(taken, was=changed)) == Conflict(guard="duplicate")
    assert list(await store.entities()) == [changed, bob]


async def test_a_deleted_entity_is_gone_and_its_threads_stay(store: Store):
    await create_thread(store, "th_1", user_id="ent_1")
    await committed(store, save(human(1)))
    await committed(store, drop("ent_1"))
    assert await store.commit(drop("ent_1")) == Conflict(guard="entity")
    assert await store.entity_by_external_id("user-1") is None
    assert [thread.id for thread in await store.threads(users=["ent_1"])] == ["th_1"]
    await committed(store, save(human(2, external_id="user-1")))


async def test_of_many_who_make_one_external_id_one_wins(store: Store):
    units = [save(human(number, external_id="same")) for number in range(20)]
    answers = await asyncio.gather(*(store.commit(unit) for unit in units))
    assert sum(isinstance(answer, Committed) for answer in answers) == 1
    assert {answer.guard for answer in answers if isinstance(answer, Conflict)} == {"duplicate"}
    assert len(await store.entities()) == 1


async def test_of_many_who_change_one_entity_or_take_one_name_one_wins(store: Store):
    people = [human(number) for number in range(1, 9)]
    for one in people:
        await committed(store, save(one))
    first = people[0]
    changes = [
        save(replace(first, display_name=str(n), updated_at=later(50 + n)), was=first) for n in range(8)
    ]
    answers = await asyncio.gather(*(store.commit(unit) for unit in changes))
    assert [type(answer) for answer in answers].count(Committed) == 1
    renames = [save(replace(one, external_id="same", updated_at=later(99)), was=one) for one in people[1:]]
    answers = await asyncio.gather(*(store.commit(unit) for unit in renames))
    assert [type(answer) for answer in answers].count(Committed) == 1
    assert {answer.guard for answer in answers if isinstance(answer, Conflict)} == {"duplicate"}
    assert len(await store.entities()) == 8


async def test_two_processes_on_one_postgres_agree_who_wins():
    async with fresh_database() as url:
        stores = [await open_postgres(url, lambda _: None) for _ in range(2)]
        makes = [
            stores[n % 2].commit(save(human(n, external_id=f"new-{n // 4}"))) for n in range(40)
        ]  # four entities compete for each name
        answers = await asyncio.gather(*makes)
        assert [type(answer) for answer in answers].count(Committed) == 10
        assert {answer.guard for answer in answers if isinstance(answer, Conflict)} == {"duplicate"}
        people = list(await stores[0].entities(limit=50))
        swaps = [
            stores[n % 2].commit(
                save(
                    replace(one, external_id=people[(n + 1) % 10].external_id, updated_at=later(99)), was=one
                )
            )
            for n, one in enumerate(people)
        ]  # each takes the next one's name: a cycle of locks
        swapped = await asyncio.gather(*swaps)
        assert {answer.guard for answer in swapped if isinstance(answer, Conflict)} <= {"duplicate"}
        names = [one.external_id for one in await stores[1].entities(limit=50)]
        assert len(set(names)) == 10
        for store in stores:
            await store.close()
