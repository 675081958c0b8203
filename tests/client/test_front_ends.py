"""Front-ends registered by the client, against a served runtime."""

import pytest

from tests.api.town import ADA, BOB, town
from tests.client.rig import client_of
from toolwright.client import Client
from toolwright.core.errors import InvalidRequest, NotFound

pytestmark = pytest.mark.anyio


def person(port: int, headers: dict[str, str]) -> Client:
    token = headers["authorization"].removeprefix("Bearer ")
    return client_of(port, public_key=headers["x-public-key"], token=token)


async def test_a_service_registers_front_ends_for_people_lists_and_deletes_them() -> None:
    async with town() as made, client_of(made.api.port, secret_key="sk") as service:
        ada, bob, first = (made.ids[name] for name in ("ada", "bob", "client_id"))
        desk = await service.clients.register(bob, "Desk ü", {"os": ["x", None]})
        assert (desk.entity_id, desk.name, desk.metadata) == (bob, "Desk ü", {"os": ["x", None]})
        assert desk.created_at.tzinfo is not None
        plain = await service.clients.register(bob)
        assert (plain.name, plain.metadata) == (None, {})
        assert {one.id for one in await service.clients.list()} == {first, desk.id, plain.id}
        listed = await service.clients.list(bob)
        assert {one.id for one in listed} == {desk.id, plain.id}
        assert await service.clients.list(bob, limit=1, offset=1) == listed[1:]
        assert [one.id for one in await service.clients.list(ada)] == [first]
        await service.clients.delete(plain.id)
        assert await service.clients.list(bob) == [desk]
        with pytest.raises(NotFound, match="no client"):
            await service.clients.delete(plain.id)
        with pytest.raises(NotFound, match="no entity"):
            await service.clients.register("ent_nobody")
        with pytest.raises(InvalidRequest) as caught:
            await service.clients.register()
        assert caught.value.details == [{"path": "entityId", "message": "is required"}]


async def test_a_person_has_only_their_own_front_ends() -> None:
    async with town() as made, person(made.api.port, ADA) as ada, person(made.api.port, BOB) as bob:
        phone = await ada.clients.register(made.ids["bob"], "Phone")
        assert phone.entity_id == made.ids["ada"]
        assert phone in await ada.clients.list(made.ids["bob"])
        assert await bob.clients.list() == []
        with pytest.raises(NotFound):
            await bob.clients.delete(phone.id)
        await ada.clients.delete(phone.id)
        assert [one.id for one in await ada.clients.list()] == [made.ids["client_id"]]
