"""Env, tenvs and files in every store: part of their units, written completely or not at all."""

import asyncio
from dataclasses import replace

import pytest
from tests.conformance.test_entities import drop, human, save
from tests.play import AT, begun, committed, create, later, new_id, post, token

from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.files import File, FileChange, fold
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, CreateThread, Reseal, Result, SetEnv

pytestmark = pytest.mark.anyio


def row(owner: str, name: str, value: str = "v", key: str | None = None, kind: str = "env") -> EnvRow:
    return EnvRow(
        owner=owner,
        kind="tenv" if kind == "tenv" else "env",
        name=name,
        type="secret" if key else "text",
        value=value,
        key=key,
        updated_at=AT,
    )


def put(*rows: EnvRow) -> tuple[EnvChange, ...]:
    return tuple(EnvChange(owner=each.owner, kind=each.kind, name=each.name, row=each) for each in rows)


def of_person(*rows: EnvRow) -> SetEnv:
    return SetEnv(token=token(), at=AT, thread_id=None, entity_id=rows[0].owner, env=put(*rows))


def file(thread_id: str, path: str, digest: str = "d1") -> File:
    return File(
        thread_id=thread_id,
        path=path,
        id=new_id("fil"),
        name=path.rsplit("/", 1)[1],
        mime_type="text/plain",
        size=3,
        digest=digest,
        width=1,
        description="Über\ud800 all",
        created_at=AT,
    )


async def test_a_thread_is_born_with_its_values(store: Store) -> None:
    unit = create()
    thread_id = unit.thread.id
    rows = (row(thread_id, "A"), row(thread_id, "A", '"x"', kind="tenv"), row(thread_id, "B", key="k1"))
    assert await store.commit(replace(unit, env=put(*rows))) == Committed()
    assert await store.env(thread_id) == [rows[0], rows[2], rows[1]]
    view = await store.view(thread_id)
    assert view is not None
    assert view.env == (rows[0], rows[2], rows[1])
    assert await store.env("thr_none") == []


async def test_values_are_set_again_and_taken_away(store: Store) -> None:
    unit = create()
    thread_id = unit.thread.id
    await store.commit(replace(unit, env=put(row(thread_id, "A"), row(thread_id, "B"))))
    new = replace(row(thread_id, "A", "new", key="k2"), updated_at=later(1))
    gone = EnvChange(owner=thread_id, kind="env", name="B")
    change = SetEnv(token=token(), at=later(1), thread_id=thread_id, env=(*put(new), gone))
    assert await store.commit(change) == Committed()
    assert await store.env_of(thread_id) == [new]
    thread = await store.thread(thread_id)
    assert thread is not None
    assert thread.posted == 1


async def test_values_of_a_thread_that_is_not_there_are_not_set(store: Store) -> None:
    unit = SetEnv(token=token(), at=AT, thread_id="thr_none", env=put(row("thr_none", "A")))
    assert await store.commit(unit) == Conflict(guard="thread")
    assert await store.env_of("thr_none") == []


async def test_values_of_a_person_are_set_and_go_with_them(store: Store) -> None:
    await committed(store, save(human(1)))
    await committed(store, of_person(row("ent_1", "A")))
    assert await store.env_of("ent_1") == [row("ent_1", "A")]
    await committed(store, drop("ent_1"))
    assert await store.env_of("ent_1") == []


async def test_values_of_a_person_who_is_not_there_are_not_set(store: Store) -> None:
    await committed(store, save(human(1)))
    await committed(store, drop("ent_1"))
    assert await store.commit(of_person(row("ent_1", "A"))) == Conflict(guard="entity")
    assert await store.env_of("ent_1") == []


async def test_of_those_who_set_values_and_who_delete_their_person_nothing_is_left(store: Store) -> None:
    for number in range(20):
        person = human(number)
        await committed(store, save(person))
        values = [of_person(row(person.id, f"N{n}")) for n in range(4)]
        units = [*values[:2], drop(person.id), *values[2:]]
        answers = await asyncio.gather(*[store.commit(unit) for unit in units])
        assert isinstance(answers[2], Committed)
        assert all(answer in (Committed(), Conflict(guard="entity")) for answer in answers)
        assert await store.env_of(person.id) == []


async def test_values_sealed_by_other_keys_are_found(store: Store) -> None:
    await committed(store, save(human(1)))
    rows = [row("ent_1", f"N{n}", key=f"k{n % 2}") for n in range(6)]
    await committed(store, of_person(*rows, row("ent_1", "P")))
    assert {each.name for each in await store.sealed_otherwise("k0", 10)} == {"N1", "N3", "N5"}
    assert len(await store.sealed_otherwise("k0", 2)) == 2


async def test_files_come_with_a_message_and_none_of_them_if_a_path_is_taken(store: Store) -> None:
    unit = create()
    thread_id = unit.thread.id
    await store.commit(unit)
    first = file(thread_id, "/attachments/a.txt")
    sent = replace(post(thread_id), files=(FileChange(path=first.path, file=first, new=True),))
    assert isinstance(await store.commit(sent), Committed)
    again = file(thread_id, "/attachments/A.TXT")
    other = file(thread_id, "/attachments/b.txt")
    changes = tuple(FileChange(path=each.path, file=each, new=True) for each in (other, again))
    assert await store.commit(replace(post(thread_id), files=changes)) == Conflict(guard="file")
    assert await store.files(thread_id) == [first]
    assert await store.file(thread_id, fold("/ATTACHMENTS/a.txt")) == first
    assert await store.file(thread_id, "/none") is None
    assert len(await store.inbox(thread_id)) == 1


async def test_a_drain_writes_over_files_and_takes_them_away(store: Store) -> None:
    drain = await begun(store)
    thread_id = drain.thread_id
    one, two = file(thread_id, "/a.txt"), file(thread_id, "/b.txt")
    changes = tuple(FileChange(path=each.path, file=each) for each in (one, two))
    env = put(row(thread_id, "A"))
    assert isinstance(await store.commit(drain.unit(Result, files=changes, env=env)), Committed)
    anew = replace(one, digest="d2", size=4)
    changes = (FileChange(path="/A.txt", file=anew), FileChange(path="/B.txt"), FileChange(path="/none"))
    assert isinstance(await store.commit(drain.unit(Result, files=changes)), Committed)
    assert await store.files(thread_id) == [anew]
    assert await store.env_of(thread_id) == [row(thread_id, "A")]


async def test_what_a_lost_drain_wrote_is_not_there(store: Store) -> None:
    turn = await begun(store)
    thread_id = turn.thread_id
    one = file(thread_id, "/a.txt")
    lost = replace(
        turn.unit(Result, files=(FileChange(path=one.path, file=one),), env=put(row(thread_id, "A"))),
        epoch=99,
    )
    assert await store.commit(lost) == Conflict(guard="fence")
    assert await store.files(thread_id) == []
    assert await store.env(thread_id) == []


async def test_the_same_thread_twice_leaves_the_values_of_the_first(store: Store) -> None:
    unit = create()
    thread_id = unit.thread.id
    await store.commit(replace(unit, env=put(row(thread_id, "A", "first"))))
    again = CreateThread(token=token(), at=AT, thread=unit.thread, env=put(row(thread_id, "A", "second")))
    assert await store.commit(again) == Conflict(guard="duplicate")
    assert [each.value for each in await store.env_of(thread_id)] == ["first"]


async def test_secrets_are_encrypted_again_but_not_those_that_have_changed_meanwhile(store: Store) -> None:
    await committed(store, save(human(1)))
    old = [row("ent_1", name, f"old {name}", key="k1") for name in ("A", "B")]
    newer = row("ent_1", "B", "newer", key="k1")
    for rows in (old, [newer]):
        await committed(store, of_person(*rows))
    pairs = tuple((each, replace(each, value=f"new {each.name}", key="k2")) for each in old)
    assert await store.commit(Reseal(token=token(), at=later(1), rows=pairs)) == Committed(count=1)
    assert await store.env_of("ent_1") == [pairs[0][1], newer]


async def test_nothing_to_set_changes_nothing_but_the_count(store: Store) -> None:
    unit = create()
    await store.commit(unit)
    empty = SetEnv(token=token(), at=AT, thread_id=unit.thread.id, env=())
    assert await store.commit(empty) == Committed()
