"""An unknown query parameter is rejected by its name, on every route."""

from typing import Any

import httpx2
import pytest

from tests.api.rig import read
from tests.api.test_access import ROWS, Row, filled
from tests.api.town import ADA, SERVICE, town

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_parameter_that_the_route_does_not_know_is_refused_and_nothing_is_changed(row: Row) -> None:
    async with town() as made:
        before, ids = await made.journal(), row.of(made.ids)
        asked: dict[str, Any] = {
            "method": row.method,
            "url": filled(row.path, ids),
            "json": filled(row.body, ids),
            "params": {"Limit": "5", "colour": "red"},
        }
        error = read(await made.api.client.request(headers=SERVICE, **asked), 400)
        assert [each["path"] for each in error["details"]] == ["Limit", "colour"]
        assert error["error"].startswith(
            "'Limit' is not a known query parameter; 'colour' is not a known query parameter: "
        )
        nobody = await made.api.client.request(**asked)
        assert nobody.status_code == 401, "who is nobody learns nothing of the route"
        assert await made.journal() == before


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/api/runs", ["status=completed", "agentId=tester", "threadId=x", "limit=1", "offset=1"]),
        (
            "/api/calls",
            [
                *("status=waiting,pending", "runId=x", "agentId=tester"),
                *("spaceId=x", "smartSpaceId=x", "channelId=x", "spaceId=x&channelId=x"),
            ],
        ),
        ("/api/spaces/{space_id}/messages", ["limit=200", "afterSeq=0", "beforeSeq=5"]),
        ("/api/smart-spaces/{space_id}/messages", ["limit=200"]),
        ("/api/agents/{agent_id}/inbox", ["threadId={thread_id}", "limit=1"]),
        ("/api/agents/{agent_id}/prompt", []),
        ("/api/agents/{agent_id}/mcp", []),
        ("/api/runs/{run_id}/events", ["after=0", "limit=1", "offset=0"]),
        ("/api/threads", ["userId=x", "limit=1"]),
        ("/api/clients", ["entityId={ada}"]),
        ("/health", ["probe=1"]),
    ],
)
async def test_the_parameters_that_a_route_knows_are_taken(path: str, known: list[str]) -> None:
    async with town() as made:
        for query in known:
            url = f"{path}?{query}".format(**made.ids)
            read(await made.api.client.get(url, headers=SERVICE), 200)


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/api/threads/{thread_id}/stream", "after=0"),
        ("/api/runs/{run_id}/stream", "after=0"),
        ("/api/spaces/{space_id}/stream", "after=0"),
        ("/api/smart-spaces/{space_id}/stream", "after=0"),
        ("/api/sse", "after=0"),
        ("/api/sse", "after=0&names=s4"),
        ("/api/tools/stream", "tools=a,b&tools=c"),
    ],
)
async def test_streams_take_their_parameters_and_a_token_and_no_others(path: str, known: str) -> None:
    who = SERVICE if "tools" in path else ADA
    async with town() as made, httpx2.AsyncClient(base_url=made.api.client.base_url, timeout=60) as client:
        for query, expected in ((known, 200), (f"{known}&Last-Event-ID=3", 400)):
            token = await made.stream_token(who)
            url = f"{path}?token={token}&{query}".format(**made.ids)
            async with client.stream("GET", url) as stream:
                assert stream.status_code == expected
                if expected == 400:
                    assert "'Last-Event-ID' is not a known query parameter" in (await stream.aread()).decode()


async def test_a_query_names_one_space() -> None:
    async with town() as made:
        for path in ("/api/calls", "/api/agents/tester/prompt"):
            url = f"{path}?spaceId=a&smartSpaceId=a&channelId=b"
            refused = read(await made.api.client.get(url, headers=SERVICE), 400)
            assert [each["path"] for each in refused["details"]] == ["channelId"]
