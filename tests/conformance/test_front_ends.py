"""Registered front-ends in every journal: stored, listed, deleted alone and with their entity."""

import asyncio
from dataclasses import replace

import pytest
from tests.conformance.test_spaces import act
from tests.play import AT, committed, later, token

from toolwright.core.journal.rows import Add, Delete
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Apply,
    Committed,
    Conflict,
    DropEntity,
    SaveEntity,
    SignOut,
    UseOnce,
)
from toolwright.core.spaces import Entity, FrontEnd

pytestmark = pytest.mark.anyio

PHONE = FrontEnd(
    id="cli_1", entity_id="ent_1", name="Ph\x00ne \ud800", metadata={"a": [None, "\u2028"]}, created_at=AT
)


def save(front_end: FrontEnd) -> Apply:
    return act(Add(record=front_end))


def drop(id: str) -> Apply:
    return act(Delete(kind=FrontEnd, key=(id,), guard="front_end"))


async def test_front_ends_are_kept_listed_and_taken_off(store: Store):
    desk = replace(PHONE, id="cli_2", entity_id="ent_2", name=None, metadata={}, created_at=later(1))
    watch = replace(PHONE, id="cli_3", created_at=later(2))
    for one in (watch, desk, PHONE):
        await committed(store, save(one))
    assert await store.commit(save(replace(desk, id="cli_1"))) == Conflict(guard="duplicate")
    assert await store.records.one(FrontEnd, "cli_1") == PHONE
    assert await store.records.one(FrontEnd, "cli_9") is None
    assert list(
        await store.records.list(
            FrontEnd,
        )
    ) == [PHONE, desk, watch]
    assert list(await store.records.list(FrontEnd, limit=1, offset=1)) == [desk]
    assert list(await store.records.list(FrontEnd, "ent_1")) == [PHONE, watch]
    assert list(await store.records.list(FrontEnd, "ent_9")) == []
    await committed(store, drop("cli_3"))
    assert await store.commit(drop("cli_3")) == Conflict(guard="front_end")
    assert list(
        await store.records.list(
            FrontEnd,
        )
    ) == [PHONE, desk]


async def test_front_ends_go_with_their_entity(store: Store):
    ada = Entity(
        id="ent_1",
        type="human",
        external_id="a",
        metadata={},
        created_at=AT,
        updated_at=AT,
        display_name=None,
    )
    await committed(store, SaveEntity(token=token(), at=AT, entity=ada))
    await committed(store, save(PHONE))
    await committed(store, save(replace(PHONE, id="cli_2", entity_id="ent_2")))
    await committed(store, DropEntity(token=token(), at=AT, entity_id="ent_1"))
    assert [
        one.id
        for one in await store.records.list(
            FrontEnd,
        )
    ] == ["cli_2"]


async def test_sign_outs_are_kept_until_the_sessions_would_have_expired(store: Store) -> None:
    async def sign_out(key: str, at: float, until: float) -> None:
        unit = SignOut(token=token(), at=later(at), key=key, until=later(until))
        await committed(store, unit)

    await sign_out("session", 0, 10)
    await sign_out("person:ent_1", 1, 20)
    assert await store.sessions.signed_out("session", "person:ent_1") == {
        "session": later(0),
        "person:ent_1": later(1),
    }
    assert await store.sessions.signed_out("other", "person:ent_2") == {}
    await sign_out("person:ent_1", 5, 30)  # the latest time counts
    assert await store.sessions.signed_out("session", "person:ent_1") == {
        "session": later(0),
        "person:ent_1": later(5),
    }
    await sign_out("another", 11, 30)
    assert await store.sessions.signed_out("session", "person:ent_1") == {"person:ent_1": later(5)}


async def test_a_key_is_used_up_by_the_first_use(store: Store) -> None:
    def use(key: str, at: float, until: float) -> UseOnce:
        return UseOnce(token=token(), at=later(at), key=key, until=later(until))

    answers = await asyncio.gather(*[store.commit(use("token:1", 0, 10)) for _ in range(2)])
    assert sorted(isinstance(each, Committed) for each in answers) == [False, True]
    await committed(store, use("token:2", 1, 20))
    assert await store.commit(use("token:2", 19, 30)) == Conflict(guard="duplicate")
    await committed(store, use("token:3", 11, 20))  # expired entries are deleted
    await committed(store, use("token:1", 11, 20))
