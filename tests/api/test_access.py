"""Every route and every kind of caller: which status each receives (API §3, D24)."""

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from tests.api.rig import serving
from tests.api.town import ADA, BOB, SERVICE, UNKNOWN, Town, person, town
from tests.web.signing import OTHER, claims, raw, signed

pytestmark = pytest.mark.anyio

Headers = dict[str, str]


@dataclass(frozen=True)
class Row:
    """A route, and its status for a service, for the owner of the resource, and for another person."""

    method: str
    path: str
    service: int
    owner: int = 403
    stranger: int = 403
    body: dict[str, Any] | None = None  # JSON; placeholders such as `{call_id}` are filled in
    stream: bool = False
    agent: str = "agent_id"  # the agent of the town to use: one declared by the app, or `configured_id`

    @property
    def reads(self) -> bool:
        """Whether the route only reads, so that all allowed callers can share one town."""
        return self.method == "GET"

    def of(self, ids: dict[str, str]) -> dict[str, str]:
        """Return the ids of the town with the agent of this row."""
        return {**ids, "agent_id": ids[self.agent]}

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


PROXIED: list[Headers] = [
    {"Forwarded": "for=203.0.113.9;proto=https"},
    {"X-Real-IP": "203.0.113.9"},
    {"Via": "1.1 proxy"},
    {"X-Forwarded-For": "203.0.113.9"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-Host": "service.example"},
    {"x-forwarded-proto": "https", **SERVICE},
]
"""Headers of a proxy on this machine, which replaces the host."""
NEW_THREAD = {"agentId": "tester"}
SERVICE_ONLY = [
    Row("GET", "/api/agents", 200),
    Row("POST", "/api/agents", 201, body={"name": "scout", "config": {}}),
    Row("GET", "/api/agents/{agent_id}", 200),
    Row("PATCH", "/api/agents/{agent_id}", 200, body={"name": "scout"}, agent="configured_id"),
    Row("DELETE", "/api/agents/{agent_id}", 200, agent="configured_id"),
    Row("POST", "/api/agents/{agent_id}/trigger", 200, body={"serviceName": "bell"}, agent="configured_id"),
    Row("GET", "/api/agents/{agent_id}/prompt", 200),
    Row("GET", "/api/agents/{agent_id}/mcp", 200),
    Row("POST", "/api/agents/{agent_id}/mcp/{server}/tools/{tool}/accept", 404),
    Row("POST", "/api/entities", 201, body={"type": "human", "externalId": "user-eve"}),
    Row("GET", "/api/entities", 200),
    Row("GET", "/api/entities/{entity_id}", 200),
    Row("PATCH", "/api/entities/{entity_id}", 200, body={"displayName": "Eve"}),
    Row("PATCH", "/api/entities/{entity_id}/env", 200, body={"env": {"A": "a"}}),
    Row("DELETE", "/api/entities/{entity_id}", 200),
    Row("GET", "/api/runs", 200),
    Row("GET", "/metrics", 404),
    Row("GET", "/api/tools/stream", 200, stream=True),
    Row("POST", "/api/calls/{call_id}/cancel", 200),
    Row("POST", "/api/calls/{call_id}/claim", 200, body={"worker": "w", "leaseMs": 5000}),
    Row("GET", "/api/agents/{agent_id}/inbox", 200),
    Row("GET", "/api/agents/{agent_id}/goals", 200),
    Row("GET", "/api/agents/{agent_id}/memories", 200),
    Row("GET", "/api/agents/{agent_id}/plans", 200),
    Row("POST", "/api/agents/{agent_id}/goals", 200, body={"description": "Tea"}),
    Row("DELETE", "/api/agents/{agent_id}/goals/{goal_id}", 404),
    Row("POST", "/api/agents/{agent_id}/memories", 200, body={"key": "tea", "value": "green"}),
    Row("DELETE", "/api/agents/{agent_id}/memories/{key}", 404),
    Row(
        "POST",
        "/api/agents/{agent_id}/plans",
        200,
        body={"name": "Tea", "instruction": "Make it.", "cron": "@daily"},
        agent="configured_id",
    ),
    Row("DELETE", "/api/agents/{agent_id}/plans/{plan_id}", 404),
    Row("GET", "/api/agents/{agent_id}/memory", 200),
    Row("GET", "/api/agents/{agent_id}/memory/{label}", 404),
    Row("PUT", "/api/agents/{agent_id}/memory/{label}", 200, body={"content": "Calm."}),
    Row("DELETE", "/api/agents/{agent_id}/memory/{label}", 404),
    Row("PUT", "/api/agents/{agent_id}/readers/{reader_id}/memory/{label}", 404),
    Row("DELETE", "/api/agents/{agent_id}/readers/{reader_id}/memory/{label}", 200),
    Row("GET", "/api/agents/{agent_id}/passages", 200),
    Row("POST", "/api/agents/{agent_id}/passages", 201, body={"content": "Jim likes tea."}),
    Row("GET", "/api/agents/{agent_id}/passages/{passage_id}", 404),
    Row("DELETE", "/api/agents/{agent_id}/passages/{passage_id}", 404),
    Row("POST", "/api/agents/{agent_id}/inbox/{event_id}/retry", 404),
    Row("POST", "/api/spaces", 201, body={"name": "Cake"}),
    Row("PATCH", "/api/spaces/{space_id}", 200, body={"name": "Cake"}),
    Row("DELETE", "/api/spaces/{space_id}", 200),
    Row("POST", "/api/spaces/{space_id}/members", 200, body={"entityId": "{entity_id}"}),
    Row("PATCH", "/api/spaces/{space_id}/members/{entity_id}", 404, body={"role": "owner"}),
    Row("DELETE", "/api/spaces/{space_id}/members/{entity_id}", 404),
]
FOR_PEOPLE = [
    Row("POST", "/api/threads", 201, 201, 201, NEW_THREAD),
    Row("GET", "/api/threads", 200, 200, 200),
    Row("GET", "/api/threads/{thread_id}", 200, 200, 404),
    Row("PATCH", "/api/threads/{thread_id}", 200, 200, 404, {"name": "Cake"}),
    Row("DELETE", "/api/threads/{thread_id}", 409, 409, 404),  # its run is suspended
    Row("POST", "/api/threads/{thread_id}/messages", 202, 202, 404, {"content": "Hello"}),
    Row("GET", "/api/threads/{thread_id}/messages", 200, 200, 404),
    Row("GET", "/api/threads/{thread_id}/stream", 200, 200, 404, stream=True),
    Row("GET", "/api/threads/{thread_id}/files", 200, 200, 404),
    Row("GET", "/api/threads/{thread_id}/files/{path}", 200, 200, 404),
    Row("GET", "/api/threads/{thread_id}/children", 200, 200, 404),
    Row("GET", "/api/threads/{thread_id}/variables/{request_id}", 200, 200, 404),
    Row("POST", "/api/threads/{thread_id}/variables/{request_id}", 200, 200, 404, {"env": {}}),
    Row("PATCH", "/api/threads/{thread_id}/env", 200, 403, 404, {"env": {"A": "a"}}),
    Row("GET", "/api/runs/{run_id}", 200, 200, 404),
    Row("GET", "/api/runs/{run_id}/events", 200, 200, 404),
    Row("GET", "/api/runs/{run_id}/prompts", 200, 200, 404),
    Row("GET", "/api/threads/{thread_id}/compactions", 200, 200, 404),
    # nothing has been left out of the prompt
    Row("PATCH", "/api/threads/{thread_id}/summary", 404, 404, 404, {"text": "Tea."}),
    # nothing has been left out of the prompt
    Row("DELETE", "/api/threads/{thread_id}/summary", 404, 404, 404),
    # the message belongs to a space
    Row("PUT", "/api/threads/{thread_id}/messages/{message_id}/pin", 404, 404, 404),
    # the message belongs to a space
    Row("DELETE", "/api/threads/{thread_id}/messages/{message_id}/pin", 404, 404, 404),
    # the message belongs to a space
    Row("PUT", "/api/threads/{thread_id}/messages/{message_id}/hidden", 404, 404, 404),
    # the message belongs to a space
    Row("DELETE", "/api/threads/{thread_id}/messages/{message_id}/hidden", 404, 404, 404),
    Row("GET", "/api/runs/{run_id}/stream", 200, 200, 404, stream=True),
    Row("POST", "/api/runs/{run_id}/cancel", 200, 200, 404),
    Row("POST", "/api/runs/{run_id}/retry", 409, 409, 404),  # the run is suspended, not failed
    Row("POST", "/api/runs/{run_id}/tool-results", 200, 403, 404, {"callId": "{call_id}", "result": 1}),
    Row("GET", "/api/calls", 200, 200, 200),
    Row("GET", "/api/calls/{call_id}", 200, 200, 404),
    Row("POST", "/api/stream-tokens", 200, 200, 200),
    Row("GET", "/api/spaces", 200, 200, 200),
    Row("GET", "/api/spaces/{space_id}", 200, 200, 404),
    Row("GET", "/api/spaces/{space_id}/members", 200, 200, 404),
    Row("PATCH", "/api/spaces/{space_id}/read", 403, 200, 404, {"seq": 1}),
    Row("GET", "/api/spaces/{space_id}/messages", 200, 200, 404),
    Row("POST", "/api/spaces/{space_id}/messages", 201, 201, 404, {"content": "Hi", "entityId": "{ada}"}),
    Row("PATCH", "/api/messages/{message_id}", 200, 200, 404, {"content": "Hi"}),
    Row("DELETE", "/api/messages/{message_id}", 200, 200, 404),
    Row("POST", "/api/messages/{message_id}/reactions", 200, 200, 404, {"emoji": "x", "entityId": "{ada}"}),
    Row(
        "DELETE", "/api/messages/{message_id}/reactions", 200, 200, 404, {"emoji": "+1", "entityId": "{ada}"}
    ),
    Row("GET", "/api/spaces/{space_id}/stream", 200, 200, 404, stream=True),
    Row("GET", "/api/sse", 200, 200, 200, stream=True),
    Row("POST", "/api/clients", 201, 201, 201, {"entityId": "{ada}"}),
    Row("GET", "/api/clients", 200, 200, 200),
    Row("DELETE", "/api/clients/{client_id}", 200, 200, 404),
]
OPEN_TO_ALL: dict[str, Any] = {"secret_keys": (), "public_keys": (), "verify_token": None}
ROWS = [*SERVICE_ONLY, *FOR_PEOPLE]
OPEN = {("GET", path) for path in ("/", "/health", "/ready", "/live")}
DOCS = {("GET", path) for path in ("/openapi.json", "/docs", "/docs/{part}")}
"""Routes for any service. Like the open routes they are not in the document."""

GOOD = signed(claims("user-ada"))
REFUSED: dict[str, tuple[int, Headers]] = {
    "nobody": (401, {}),
    "a wrong secret key": (401, {"x-secret-key": "wrong"}),
    "an empty secret key": (401, {"x-secret-key": ""}),
    "a public key as the secret one": (401, {"x-secret-key": "pk"}),
    "a wrong secret key beside a person": (401, {**ADA, "x-secret-key": "wrong"}),
    "a public key alone": (401, {"x-public-key": "pk"}),
    "a token alone": (401, {"authorization": f"Bearer {GOOD}"}),
    "a wrong public key": (401, {**ADA, "x-public-key": "wrong"}),
    "a secret key as the public one": (401, {**ADA, "x-public-key": "sk"}),
    "an empty public key": (401, {**ADA, "x-public-key": ""}),
    "no bearer": (401, {**ADA, "authorization": GOOD}),
    "another scheme": (401, {**ADA, "authorization": f"Basic {GOOD}"}),
    "an empty token": (401, {**ADA, "authorization": "Bearer"}),
    "no token": (401, {**ADA, "authorization": "Bearer sk"}),
    "an expired token": (401, person("user-ada", exp=1)),
    "a token of another issuer": (401, {**ADA, "authorization": f"Bearer {signed(key=OTHER)}"}),
    "an unsigned token": (401, {**ADA, "authorization": f"Bearer {raw({'alg': 'none'}, claims(), None)}"}),
    "a token without the claim": (401, {**ADA, "authorization": f"Bearer {signed({'name': 'ada'})}"}),
    "a token of nobody known": (403, UNKNOWN),
    "a token of a NUL": (403, person("user-ada\x00")),
    "a token of an entity's id": (403, person("ent_")),
}


def filled(given: Any, ids: dict[str, str]) -> Any:  # JSON
    if isinstance(given, dict):
        return {name: filled(value, ids) for name, value in given.items()}  # type: ignore[has-type]
    return given.format(**ids) if isinstance(given, str) else given


async def ask(
    made: Town, row: Row, headers: Headers, ids: dict[str, str] | None = None, token: str | None = None
) -> httpx2.Response:
    ids = row.of(ids or made.ids)
    path = filled(row.path, ids) + ("" if token is None else f"?token={token}")
    return await made.api.client.request(row.method, path, headers=headers, json=filled(row.body, ids))


async def status(made: Town, row: Row, headers: Headers, token: str | None = None) -> int:
    """Return the status of the route; reads only the head of a stream."""
    if not row.stream:
        return (await ask(made, row, headers, token=token)).status_code
    path = filled(row.path, row.of(made.ids)) + ("" if token is None else f"?token={token}")
    async with (
        httpx2.AsyncClient(base_url=made.api.client.base_url, verify=False) as client,
        client.stream("GET", path, headers=headers) as stream,
    ):
        return stream.status_code


def bare(answer: httpx2.Response, ids: dict[str, str]) -> tuple[int, list[tuple[str, str]], str]:
    """Return the parts of an answer that could reveal something, without the ids that the caller has sent."""
    text = answer.text
    for value in ids.values():
        text = text.replace(value, "ID")
    return answer.status_code, [(k, v) for k, v in answer.headers.multi_items() if k != "date"], text


async def test_the_table_has_every_route() -> None:
    async with serving(secret_keys=("sk",)) as api:
        documented = {
            (method.upper(), path)
            for path, item in api.application.openapi()["paths"].items()
            for method in item
        }
        assert documented - OPEN == {(row.method, row.path) for row in ROWS}
        assert len(ROWS) == len({row.name for row in ROWS})
        beside = {
            (method, re.sub(r":\w+}", "}", route.path))
            for route in api.application.routes
            if isinstance(route, Route)
            for method in route.methods or ()
            if method != "HEAD"
        }
        assert beside <= documented | OPEN | DOCS
        for _, path in OPEN:
            assert (await api.client.get(path, follow_redirects=True)).status_code == 200
        for _, path in DOCS:
            for headers, expected in (({}, 401), ({"x-secret-key": "sk"}, 200)):
                shown = await api.client.get(path.format(part="start.js"), headers=headers)
                assert shown.status_code == expected


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for all tests of the module, since they share towns."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(anyio_backend: str) -> AsyncGenerator[Town]:
    """A shared town for requests that change nothing."""
    async with town() as made:
        yield made


@pytest.fixture(scope="module")
async def without_keys(anyio_backend: str) -> AsyncGenerator[Town]:
    """A shared town without any keys."""
    async with town(**OPEN_TO_ALL) as made:
        yield made


@pytest.fixture(scope="module")
async def without_secret_keys(anyio_backend: str) -> AsyncGenerator[Town]:
    """A shared town with public keys only."""
    async with town(secret_keys=()) as made:
        yield made


async def let_in(where: Town, row: Row, headers: Headers, expected: int, **options: Any) -> None:
    """Check the caller's status: in the shared town if the request changes nothing, otherwise in a new one."""
    if row.reads or expected >= 400:
        before = await where.journal()
        assert await status(where, row, headers) == expected
        assert await where.journal() == before
    else:
        async with town(**options) as made:
            assert await status(made, row, headers) == expected


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_every_caller_is_answered_as_the_table_says(row: Row, shared: Town) -> None:
    before = await shared.journal()
    told = [await shared.stream_token(who) for who in (SERVICE, ADA, BOB)]
    for who, (expected, headers) in REFUSED.items():
        assert await status(shared, row, headers) == expected, who
    for token, opened in zip(told, (row.service, row.owner, row.stranger), strict=True):
        if not row.stream or opened >= 400:
            assert await status(shared, row, {}, token) == (opened if row.stream else 401)
        else:
            assert await status(shared, row, {}, token) == 200
            assert await status(shared, row, {}, token) == 401
    assert await shared.journal() == before
    for expected, headers in ((row.service, SERVICE), (row.owner, ADA), (row.stranger, BOB)):
        await let_in(shared, row, headers, expected)


SCRAPER, READER = {"x-secret-key": "sk-of-the-scraper"}, {"x-secret-key": "sk-of-the-reader"}
SCOPED = ("sk", "scraper(metrics)=sk-of-the-scraper", "reader(read)=sk-of-the-reader")
READS_BY_POST = "POST /api/stream-tokens"


@pytest.fixture(scope="module")
async def with_scopes(anyio_backend: str) -> AsyncGenerator[Town]:
    """A shared town with one key of each scope."""
    async with town(secret_keys=SCOPED) as made:
        yield made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_key_is_good_for_the_routes_of_its_scope(row: Row, with_scopes: Town) -> None:
    before = await with_scopes.journal()
    reads = row.reads or row.name == READS_BY_POST
    allowed = {"scraper": row.path == "/metrics", "reader": reads}
    for name, headers in (("scraper", SCRAPER), ("reader", READER)):
        assert await status(with_scopes, row, headers) == (row.service if allowed[name] else 403), name
    token = await with_scopes.stream_token(READER)
    if row.stream:
        assert await status(with_scopes, row, {}, token) == row.service
    assert await with_scopes.journal() == before


async def test_a_key_without_the_scope_is_refused_in_one_sentence(with_scopes: Town) -> None:
    refused = [
        await with_scopes.get("/api/threads", SCRAPER, 403),
        await with_scopes.post("/api/threads", READER, NEW_THREAD, 403),
        await with_scopes.get("/openapi.json", SCRAPER, 403),
    ]
    assert [each["error"] for each in refused] == [
        "The key 'scraper' may only read the metrics: this needs a key with the scope 'read'.",
        "The key 'reader' may only read: this needs a key with the scope 'all'.",
        "The key 'scraper' may only read the metrics: this needs a key with the scope 'read'.",
    ]


@pytest.mark.parametrize("row", [row for row in ROWS if row.stranger == 404], ids=lambda row: row.name)
async def test_other_peoples_things_are_answered_as_missing(row: Row, shared: Town) -> None:
    before = await shared.journal()
    absent = {name: re.sub("[0-9a-z]{8}$", "00000000", one) for name, one in shared.ids.items()}
    faulty = [{}, {"content": ""}, {"content": 5}, {"callId": "{call_id}"}, {"callId": 5, "result": 1}]
    queries = ["", "?limit=0", "?limit=1&offset=3", "?after=x", "?after=0", "?after=999"]
    for body in [row.body, *(faulty if row.body else ())]:
        for query in queries if row.method == "GET" else [""]:
            asked = Row(row.method, row.path + query, 0, body=body)
            theirs = bare(await ask(shared, asked, BOB), shared.ids)
            nothing = bare(await ask(shared, asked, BOB, absent), absent)
            assert theirs == nothing
            assert theirs[0] in (400, 404)
    assert await shared.journal() == before


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_without_any_keys_this_machine_is_a_service_and_no_other_is_let_in(
    row: Row, without_keys: Town
) -> None:
    before = await without_keys.journal()
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null", **SERVICE},
        {"Host": "evil.example", **ADA},
        *PROXIED,
    ):
        response = await ask(without_keys, row, headers)
        assert response.status_code == 403
    assert await without_keys.journal() == before
    for headers in ({}, BOB) if row.stranger == 404 else ({},):
        await let_in(without_keys, row, headers, row.service, **OPEN_TO_ALL)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_with_public_keys_alone_no_one_is_a_service(row: Row, without_secret_keys: Town) -> None:
    before = await without_secret_keys.journal()
    for headers in ({}, SERVICE, {"x-secret-key": ""}, {"Host": "localhost"}):
        assert await status(without_secret_keys, row, headers) == 401
    assert await without_secret_keys.journal() == before
    headers = {**ADA, "Host": "app.example"}
    await let_in(without_secret_keys, row, headers, row.owner, secret_keys=())


async def test_a_person_brings_only_tenvs_that_the_agent_leaves_open() -> None:
    options = {"tenvs": {"shop_url": "https://shop.test"}, "user_env": ["REGION"]}
    async with town(agent_options=options) as made:
        for tenvs, status in (({"shop_url": "http://evil.test"}, 403), ({"place": "Ulm"}, 201)):
            body = {"agentId": "tester", "tenvs": tenvs}
            await made.post("/api/threads", ADA, body, status)
            await made.post("/api/threads", {"x-secret-key": "sk"}, body, 201)
        for env, status in (({"TOKEN": "x"}, 403), ({"REGION": "eu"}, 201)):
            await made.post("/api/threads", ADA, {"agentId": "tester", "env": env}, status)
