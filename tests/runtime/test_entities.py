"""People and agents as entities, in Python."""

import asyncio
from typing import Any

import pytest

import toolwright as tw
from tests.runtime.rig import Rig, running
from toolwright.core.errors import AlreadyExists, Forbidden, InvalidRequest, NotFound
from toolwright.core.journal.units import DropEntity, SaveEntity, SetEnv, Unit
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def rig() -> Any:  # the context manager `running`
    return running(ScriptedModel([{"text": "Hi."}]), [])


async def test_a_known_external_id_is_the_same_human_with_the_fields_given() -> None:
    async with rig() as r:
        people = r.rt.entities
        first = await people.register(external_id="ada", display_name="Ada", metadata={"a": 1})
        again = await people.register(external_id="ada", metadata={"b": 2})
        assert (first.created, again.created) == (True, False)
        assert again.entity.id == first.entity.id
        assert (again.entity.display_name, again.entity.metadata) == ("Ada", {"b": 2})
        assert again.entity.updated_at > first.entity.updated_at == first.entity.created_at
        assert await people.create(external_id="ada") == again.entity
        assert await people.get(first.entity.id) == again.entity
        one, two = await people.create(), await people.create()
        assert one.id != two.id


async def test_many_who_race_with_one_external_id_make_one_entity() -> None:
    async with rig() as r:
        made = await asyncio.gather(
            *(r.rt.entities.register(external_id="ada", metadata={"n": n}) for n in range(20))
        )
        assert sum(one.created for one in made) == 1
        assert len({one.entity.id for one in made}) == 1
        [stored] = [one for one in await r.rt.entities.list() if one.type == "human"]
        assert stored.updated_at == max(one.entity.updated_at for one in made)


async def test_one_who_is_deleted_while_registered_again_is_created_again() -> None:
    async with rig() as r:
        ada = await r.rt.entities.create(external_id="ada")

        async def delete(_: int, unit: Unit) -> None:
            if isinstance(unit, SaveEntity) and unit.was is not None:
                await r.store.inner.commit(DropEntity(token="d", at=unit.at, entity_id=ada.id))

        r.store.before = delete
        again = await r.rt.entities.register(external_id="ada", display_name="Ada")
        assert again.created
        assert again.entity.id != ada.id


async def test_values_of_one_who_is_deleted_while_they_are_set_are_not_kept() -> None:
    async with rig() as r:
        ada = await r.rt.entities.create(external_id="ada")

        async def delete(_: int, unit: Unit) -> None:
            if isinstance(unit, SetEnv):
                await r.store.inner.commit(DropEntity(token="d", at=unit.at, entity_id=ada.id))

        r.store.before = delete
        with pytest.raises(NotFound, match=ada.id):
            await r.rt.entities.set_env(ada.id, {"KEY": "value"})
        assert await r.store.env_of(ada.id) == []


async def test_an_update_keeps_what_others_wrote_meanwhile() -> None:
    async with rig() as r:
        ada = await r.rt.entities.create(external_id="ada")
        await asyncio.gather(
            r.rt.entities.update(ada.id, display_name="Ada"), r.rt.entities.update(ada.id, metadata={"a": 1})
        )
        stored = await r.rt.entities.get(ada.id)
        assert (stored.display_name, stored.metadata) == ("Ada", {"a": 1})
        bob = await r.rt.entities.create(external_id="bob")
        with pytest.raises(AlreadyExists, match="'ada'"):
            await r.rt.entities.update(bob.id, external_id="ada")
        assert await r.rt.entities.get(bob.id) == bob
        assert (await r.rt.entities.update(bob.id, external_id=None)).external_id is None


async def test_agents_are_entities_that_the_app_declares(tmp_path: object) -> None:
    async with rig() as r:
        [agent] = r.rt.agents.declared
        made = [await r.rt.entities.create(external_id=name) for name in ("a", "b")]
        assert [one.id for one in await r.rt.entities.list()] == [agent.entity_id, made[0].id, made[1].id]
        assert [one.id for one in await r.rt.entities.list(1)] == [agent.entity_id]
        assert [one.id for one in await r.rt.entities.list(1, 1)] == [made[0].id]
        assert [one.id for one in await r.rt.entities.list(5, 2)] == [made[1].id]
        shown = await r.rt.entities.get(agent.entity_id)
        assert (shown.type, shown.display_name, shown.created_at) == ("agent", "tester", None)
        with pytest.raises(Forbidden, match="is the agent 'tester'"):
            await r.rt.entities.update(agent.entity_id, display_name="x")
        with pytest.raises(Forbidden, match="is the agent 'tester'"):
            await r.rt.entities.delete(agent.entity_id)


async def test_what_is_deleted_is_gone_and_can_come_again() -> None:
    async with rig() as r:
        ada = await r.rt.entities.create(external_id="ada")
        await r.rt.entities.delete(ada.id)
        for attempt in (
            r.rt.entities.get(ada.id),
            r.rt.entities.delete(ada.id),
            r.rt.entities.update(ada.id),
        ):
            with pytest.raises(NotFound, match=ada.id):
                await attempt
        assert (await r.rt.entities.create(external_id="ada")).id != ada.id


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"external_id": ""}, "externalId"),
        ({"external_id": "a\x00"}, "externalId"),
        ({"external_id": "\ud800"}, "externalId"),
        ({"external_id": "x" * 513}, "externalId"),
        ({"external_id": "ent_1"}, "externalId"),
        ({"external_id": 5}, "externalId"),
        ({"display_name": "\ud800"}, "displayName"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {"a": float("nan")}}, "metadata"),
    ],
)
async def test_what_no_journal_keeps_is_refused(fields: dict[str, Any], path: str) -> None:
    async with rig() as r:
        rigged: Rig = r
        known = await rigged.rt.entities.create(external_id="ada")
        for attempt in (rigged.rt.entities.create(**fields), rigged.rt.entities.update(known.id, **fields)):
            with pytest.raises(InvalidRequest) as refused:
                await attempt
            assert refused.value.details[0]["path"] == path
        assert len(await rigged.rt.entities.list()) == 2
        with pytest.raises(InvalidRequest, match="name is not a field"):
            await rigged.rt.entities.create(name="x")  # type: ignore[call-arg]


def test_entities_are_no_part_of_the_public_surface() -> None:
    assert not hasattr(tw, "Entity")
