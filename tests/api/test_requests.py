"""Who is allowed to call, and the answers to invalid requests."""

import json
import re
from collections.abc import AsyncIterator

import pytest

from tests.api.documented import document
from tests.api.rig import read, serving
from tests.api.test_access import ROWS, filled
from tests.api.town import SERVICE, town
from toolwright.core.journal.units import Unit

pytestmark = pytest.mark.anyio

ROUTES = [
    (row.method, re.sub(r"\{[a-z_]+\}", "x", row.path.replace("{agent_id}", "tester").replace("{path}", "y")))
    for row in ROWS
]


async def test_every_route_asks_for_a_key_before_it_looks_at_anything() -> None:
    async with serving(secret_keys=("first", "zweiter-ü")) as api:
        for method, path in ROUTES:
            for headers in ({}, {"x-secret-key": "wrong"}, {"x-secret-key": ""}):
                response = await api.client.request(
                    method, path, headers=headers, params={"limit": "x"}, content=b"{bad"
                )
                read(response, 401)
        for key in ("first", "zweiter-ü"):
            headers = {b"x-secret-key": key.encode(), b"origin": b"https://evil.example"}
            response = await api.client.get("/api/agents", headers=list(headers.items()))
            read(response, 200)


async def test_the_document_is_the_same_for_every_gateway() -> None:
    """All answers in these tests are checked against one document that is created once."""
    async with town(cors_origins=("https://ok.example",), max_body=1_000) as made:
        assert made.api.application.openapi() == document().whole


async def test_without_keys_only_this_machine_may_call() -> None:
    async with serving(cors_origins=("https://ok.example",)) as api:
        refused = [
            {"Host": "evil.example"},
            {"Host": f"evil.example:{api.port}"},
            {"Host": "127.0.0.1.evil.example"},
            {"Host": "[::1"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost.evil.example"},
            {"X-Real-IP": "203.0.113.9"},
        ]
        for headers in refused:
            for path in ("/api/agents", "/api/threads/x/stream"):
                read(await api.client.get(path, headers=headers), 403)
        allowed = [
            {"Host": "localhost"},
            {"Host": "LOCALHOST:1"},
            {"Host": "[::1]:80"},
            {"Host": "127.8.8.8"},
            {"Origin": f"http://127.0.0.1:{api.port}"},
            {"Origin": "http://localhost:3000"},
            {"Origin": "https://ok.example"},
        ]
        for headers in allowed:
            read(await api.client.get("/api/agents", headers=headers), 200)


async def test_pages_of_configured_origins_get_cors_headers_and_no_others() -> None:
    async with serving(secret_keys=("k",), cors_origins=("https://ok.example",)) as api:
        asks = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-secret-key, x-public-key, authorization",
        }
        allowed = await api.client.options("/api/threads", headers={"Origin": "https://ok.example", **asks})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://ok.example"
        response = await api.client.get("/api/agents", headers={"Origin": "https://ok.example"})
        assert read(response, 401)
        assert response.headers["access-control-allow-origin"] == "https://ok.example"
        refused = await api.client.options("/api/threads", headers={"Origin": "https://evil.example", **asks})
        assert "access-control-allow-origin" not in refused.headers
        read(refused, 400)


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({}, "agentId", "is required"),
        ({"agentId": 5}, "agentId", "must be text"),
        ({"agentId": "tester", "agent": "x"}, "agent", "is not a known field"),
        ({"agentId": "tester", "user_id": "x"}, "user_id", "is not a known field"),
        ({"agentId": "tester", "tags": "x"}, "tags", "must be a list"),
        ({"agentId": "tester", "tags": ["a", 1]}, "tags.1", "must be text"),
        ({"agentId": "tester", "arguments": [1]}, "arguments", "must be an object"),
        ({"agentId": "te\u0000ster"}, "agentId", "must be text without NUL"),
        ([1], "", "must be an object"),
    ],
)
async def test_an_invalid_body_is_answered_with_its_paths(body: object, path: str, message: str) -> None:
    async with serving() as api:
        shown = await api.post("/api/threads", body, 400)
        assert shown["details"][0]["path"] == path
        assert message in shown["details"][0]["message"]
        assert path in shown["error"]
        assert (await api.get("/api/threads"))["threads"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/api/calls/x/claim", {"worker": "", "leaseMs": 5000}, "worker must not be empty"),
        ("POST", "/api/calls/x/claim", {"worker": "w", "leaseMs": 5e30}, "leaseMs must be a whole number"),
        ("POST", "/api/calls/x/claim", {"worker": "w", "leaseMs": 5}, "leaseMs must be at least 1000"),
        ("PATCH", "/api/spaces/x/read", {"seq": True}, "seq must be a whole number"),
        ("POST", "/api/agents", {"name": "a", "config": {"agent": 1}}, "config.agent must be an object."),
        (
            "POST",
            "/api/agents",
            {"name": "a", "config": {"loop": {"inboxPreview": 1}}},
            "must be true or false.",
        ),
        ("GET", "/api/threads?limit=0", None, "limit must be at least 1"),
        ("GET", "/api/threads?limit=1001", None, "limit must be at most 1000"),
        ("GET", "/api/threads?limit=x", None, "limit must be a whole number"),
    ],
)
async def test_errors_are_reported_in_plain_words(method: str, path: str, body: object, said: str) -> None:
    async with serving() as api:
        shown = read(await api.client.request(method, path, json=body), 400)
        assert shown["error"].endswith(said)


async def test_what_is_no_json_is_refused() -> None:
    deep = b'{"agentId": "tester", "arguments": ' + b'{"a":' * 70 + b"1" + b"}" * 71
    bodies = [
        b"",
        b"  ",
        b"{bad",
        b"\xff\xfe",
        b'{"agentId": NaN}',
        b'{"agentId": "tester", "arguments": {"n": 1e400}}',
        b'{"agentId": "tester", "arguments": {"n": ' + b"9" * 5000 + b"}}",
        deep,
        b"[" * 90_000,
    ]
    async with serving() as api:
        for body in bodies:
            for headers in ({}, {"content-type": "application/json"}):
                response = await api.client.post("/api/threads", content=body, headers=headers)
                assert read(response, 400)["error"].startswith("The body is not valid JSON: "), body[:50]
        response = await api.client.post("/api/threads", data={"agentId": "tester"})
        assert "application/json" in read(response, 400)["error"]
        assert (await api.get("/api/threads"))["threads"] == []


@pytest.mark.parametrize("content", ["", "  \n"])
async def test_a_message_needs_some_text(content: str) -> None:
    async with serving() as api:
        path = f"/api/threads/{await api.thread()}/messages"
        shown = await api.post(path, {"content": content}, 400)
        assert shown["details"] == [{"path": "content", "message": "is empty"}]
        assert (await api.post(path, {}, 400))["error"] == "content is required"
        assert (await api.get("/api/runs"))["runs"] == []


async def test_text_that_no_journal_keeps_is_never_a_server_error() -> None:
    async with serving() as api:
        path = f"/api/threads/{await api.thread()}/messages"
        for body in (rb'{"content": "a\u0000"}', rb'{"content": "\ud800"}'):
            read(await api.client.post(path, content=body), 400)
        for place in (
            "/api/threads/%00",
            "/api/runs/a%00b/events",
            "/api/agents/%00",
            "/api/threads/%00/stream",
        ):
            read(await api.client.get(place), 400)
        read(await api.client.get("/api/threads/%ED%A0%80"), 404)
        read(await api.client.get("/api/threads/%2e%2e%2f"), 404)
        read(await api.client.get("/api/threads?userId=%00"), 400)
        run_id, call_id = await api.waiting()
        body = json.dumps({"callId": call_id, "result": {"\u0000": "\u0000 x"}}).encode()
        read(await api.client.post(f"/api/runs/{run_id}/tool-results", content=body), 200)
        assert (await api.rig.rt.runs.wait(run_id, 10)).status == "completed"
        await api.get("/api/calls", params={"status": "resolved"})


async def test_half_a_character_is_refused_by_its_field_on_every_route_that_takes_a_body() -> None:
    """Applies to every field, including fields of any JSON."""
    async with town() as made:
        before, tried = await made.journal(), 0
        for row in ROWS:
            if row.body is None:
                continue
            places = {name: {**row.body, name: "\ud800"} for name in row.body}
            places["metadata.list.1"] = {**row.body, "metadata": {"list": ["", "half \udfff"]}}
            places["metadata"] = {**row.body, "metadata": {"\ud800": 1}}
            for place, body in places.items():
                url, sent = filled(row.path, row.of(made.ids)), json.dumps(body)
                answer = await made.api.client.request(row.method, url, headers=SERVICE, content=sent)
                shown = read(answer, 400)
                assert shown["error"] == f"{place} must not hold halves of characters (lone surrogates).", (
                    row.name
                )
                assert [each["path"] for each in shown["details"]] == [place]
                tried += 1
        assert tried > 60
        assert await made.journal() == before


async def test_half_a_character_within_a_configuration_is_named_too() -> None:
    async with serving() as api:
        config = {"agent": {"system": "\ud800"}}
        for field, given in (("config", config), ("configJson", config), ("configJson", json.dumps(config))):
            body = json.dumps({"name": "half", field: given})
            shown = read(await api.client.post("/api/agents", content=body), 400)
            assert shown["details"][0]["path"] == f"{field}.agent.system"
        await api.post("/api/agents", {"name": "marked", "configJson": "\ufeff" + json.dumps({})}, 201)


async def test_half_a_character_in_a_large_body_is_refused_by_its_field_too() -> None:
    async with serving() as api:
        for field, given in (("tags.1", ["a", "\ud800"]), ("userId", "half \udfff")):
            name = field.partition(".")[0]
            body = json.dumps({"agentId": "tester", "arguments": {"long": "x" * 3_000_000}, name: given})
            shown = read(await api.client.post("/api/threads", content=body), 400)
            assert shown["error"] == f"{field} must not hold halves of characters (lone surrogates)."
            assert [each["path"] for each in shown["details"]] == [field]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "offset=-1", "offset=99999999999999999999"]
)
async def test_invalid_pages_are_refused(query: str) -> None:
    async with serving() as api:
        for path in ("/api/agents", "/api/threads", "/api/runs", "/api/calls"):
            shown = read(await api.client.get(f"{path}?{query}"), 400)
            assert shown["details"][0]["path"] == query.partition("=")[0]


async def test_unknown_routes_and_methods_are_answered_in_json() -> None:
    async with serving() as api:
        for path in ("/nothing", "/docs/nothing", "/api/threads/", "/api/threads/x/nothing"):
            assert read(await api.client.get(path), 404) == {"error": "Not found"}
        for path, allowed in (("/api/threads", "GET, POST"), ("/api/agents/x", "DELETE, GET, PATCH")):
            response = await api.client.put(path)
            assert read(response, 405) == {"error": "Method not allowed"}
            assert response.headers["allow"] == allowed


async def test_unexpected_errors_are_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: int, __: Unit) -> None:
        raise RuntimeError("a secret detail")

    async with serving() as api:
        api.rig.store.before = broken
        shown = await api.post("/api/threads", {"agentId": "tester"}, 500)
        assert shown == {"error": "Internal server error"}
    assert "POST /api/threads failed." in caplog.text
    assert "a secret detail" in caplog.text


async def test_a_body_over_the_limit_is_refused_with_and_without_a_length() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b" " * 100

    async with serving(max_body=1_000) as api:
        for path in ("/api/threads", f"/api/threads/{await api.thread()}/messages"):
            error = {"error": "The body is larger than the limit of 1000 bytes."}
            assert read(await api.client.post(path, content=b" " * 1_001), 413) == error
            assert read(await api.client.post(path, content=chunks()), 413) == error
        fits = json.dumps({"agentId": "tester"}).encode().ljust(1_000)
        read(await api.client.post("/api/threads", content=fits), 201)


async def test_the_openapi_document_describes_each_route() -> None:
    async with serving() as api:
        document = await api.get("/openapi.json")
        described = {
            (method.upper(), path): operation
            for path, item in document["paths"].items()
            for method, operation in item.items()
        }
        for (method, path), operation in described.items():
            assert operation["tags"]
            assert operation["description"]
            if path not in ("/health", "/ready", "/live"):
                assert operation["security"]
                assert {"400", "401", "403", "503", "default"} <= set(operation["responses"])
            bodiless = ("/cancel", "/stream-tokens", "/retry", "/accept", "/pin", "/hidden")
            reads = method in {"POST", "PATCH", "PUT"} and not (
                path.endswith(bodiless) or "/readers/" in path
            )
            reads = reads or (method == "DELETE" and path.endswith("/reactions"))
            assert ("requestBody" in operation) == reads
        assert len({operation["operationId"] for operation in described.values()}) == len(described)
