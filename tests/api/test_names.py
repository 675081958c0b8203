"""Names that are not one line are rejected over HTTP, and nothing is changed."""

from typing import Any

import pytest

from tests.api.rig import read
from tests.api.town import SERVICE, town

pytestmark = pytest.mark.anyio

WORDS = "must not hold line breaks or other control characters"
TOOL: dict[str, Any] = {"description": "Ask.", "inputSchema": {}, "executionType": "external"}
ROUTES: list[tuple[str, str, str, dict[str, str]]] = [
    ("POST", "/api/agents", "name", {"configJson": "{{}}"}),
    ("PATCH", "/api/agents/{configured_id}", "name", {}),
    ("POST", "/api/agents/{configured_id}/trigger", "serviceName", {}),
    ("POST", "/api/entities", "displayName", {"type": "human"}),
    ("PATCH", "/api/entities/{entity_id}", "displayName", {}),
    ("POST", "/api/spaces", "name", {}),
    ("PATCH", "/api/spaces/{space_id}", "name", {}),
    ("POST", "/api/spaces/{space_id}/members", "role", {"entityId": "{entity_id}"}),
    ("POST", "/api/clients", "name", {"entityId": "{ada}"}),
]


@pytest.mark.parametrize(("method", "path", "field", "body"), ROUTES, ids=lambda part: str(part)[:40])
async def test_a_name_that_is_not_one_line_is_refused(
    method: str, path: str, field: str, body: dict[str, str]
) -> None:
    async with town() as made:
        before = await made.journal()
        rest = {key: text.format(**made.ids) for key, text in body.items()}
        for name in ("a\nb", "\x1b[2J", "a\u2028b"):
            answer = await made.api.client.request(
                method, path.format(**made.ids), headers=SERVICE, json={**rest, field: name}
            )
            error = read(answer, 400)
            assert error["error"] == f"{field} {WORDS}."
            assert error["details"] == [{"path": field, "message": WORDS}]
        assert await made.journal() == before


async def test_the_name_of_a_person_is_short_since_every_agent_reads_it() -> None:
    async with town() as made:
        before = await made.journal()
        for method, path in (("POST", "/api/entities"), ("PATCH", "/api/entities/{entity_id}")):
            body = {"displayName": "x" * 201} | ({"type": "human"} if method == "POST" else {})
            answer = await made.api.client.request(
                method, path.format(**made.ids), headers=SERVICE, json=body
            )
            assert read(answer, 400)["error"] == "displayName must have at most 200 characters"
        assert await made.journal() == before
        await made.post("/api/entities", SERVICE, {"type": "human", "displayName": "x" * 200}, 201)


async def test_a_tool_of_an_agent_with_such_a_name_is_refused_by_its_path() -> None:
    async with town() as made:
        before = await made.journal()
        config = {"tools": [{"name": "a\nb", **TOOL}]}
        error = await made.post("/api/agents", SERVICE, {"name": "scout", "config": config}, 400)
        assert error["details"] == [{"path": "config.tools.0.name", "message": WORDS}]
        assert await made.journal() == before
