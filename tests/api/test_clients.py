"""Registered front-ends over HTTP (API §3)."""

from typing import Any

import pytest

from tests.api.town import ADA, BOB, SERVICE, town

pytestmark = pytest.mark.anyio


async def test_everybody_registers_their_own_and_a_service_for_others() -> None:
    async with town() as made:
        body = {"name": "Phone", "metadata": {"os": "x"}, "entityId": made.ids["bob"]}
        phone = (await made.post("/api/clients", ADA, body, 201))["client"]
        assert (phone["entityId"], phone["name"], phone["metadata"]) == (
            made.ids["ada"],
            "Phone",
            {"os": "x"},
        )
        assert set(phone) == {"id", "entityId", "name", "metadata", "createdAt"}
        desk = (await made.post("/api/clients", SERVICE, {"entityId": made.ids["bob"]}, 201))["client"]
        assert (desk["entityId"], desk["name"], desk["metadata"]) == (made.ids["bob"], None, {})
        refused = await made.post("/api/clients", SERVICE, {}, 400)
        assert refused["details"] == [{"path": "entityId", "message": "is required"}]
        await made.post("/api/clients", SERVICE, {"entityId": "ent_nobody"}, 404)

        first = made.ids["client_id"]
        asked: list[tuple[dict[str, str], dict[str, Any], list[str]]] = [
            (ADA, {}, [first, phone["id"]]),
            (ADA, {"entityId": made.ids["bob"]}, [first, phone["id"]]),
            (BOB, {}, [desk["id"]]),
            (SERVICE, {}, [first, phone["id"], desk["id"]]),
            (SERVICE, {"entityId": made.ids["bob"]}, [desk["id"]]),
            (SERVICE, {"limit": 1, "offset": 1}, [phone["id"]]),
        ]
        for headers, query, found in asked:
            listed = (await made.get("/api/clients", headers, **query))["clients"]
            assert sorted(one["id"] for one in listed) == sorted(found)
        theirs = await made.api.client.delete(f"/api/clients/{phone['id']}", headers=BOB)
        assert theirs.status_code == 404
        assert (await made.api.client.delete(f"/api/clients/{phone['id']}", headers=ADA)).status_code == 200
        assert (
            await made.api.client.delete(f"/api/clients/{desk['id']}", headers=SERVICE)
        ).status_code == 200
        assert [one["id"] for one in (await made.get("/api/clients", SERVICE))["clients"]] == [first]
