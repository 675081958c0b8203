"""Hostile bodies, paths and queries: each is answered with a 4xx and a message, and nothing is changed."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from tests.api.rig import Api, read, serving
from tests.databases import sqlite_journal
from tests.runtime.rig import running
from toolwright.core.errors import InvalidJSON, InvalidRequest, NotFound, ToolwrightError
from toolwright.core.journal.store import Store
from toolwright.core.json_value import JSON
from toolwright.core.threads.event import Topic
from toolwright.testing import MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio


def nested(levels: int) -> bytes:
    """Return a body with that number of nested objects and lists."""
    inner = levels - 2
    return b'{"agentId":"tester","arguments":{"a":' + b"[" * inner + b"]" * inner + b"}}"


NO_JSON = {
    "empty": b"",
    "truncated": b'{"agentId": "tester"',
    "trailing garbage": b'{"agentId": "tester"} x',
    "two values": b'{"agentId": "tester"}{}',
    "a key twice": b'{"agentId": "tester", "agentId": "tester"}',
    "a key twice, deep": b'{"agentId": "tester", "arguments": {"a": [{"b": 1, "b": 1}]}}',
    "NaN": b'{"agentId": "tester", "arguments": {"n": NaN}}',
    "Infinity": b'{"agentId": "tester", "arguments": {"n": -Infinity}}',
    "1e400": b'{"agentId": "tester", "arguments": {"n": 1e400}}',
    "a huge integer": b'{"agentId": "tester", "arguments": {"n": ' + b"9" * 5_000 + b"}}",
    "65 levels": nested(65),
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "raw bytes": b'{"agentId": "\xff\xfe"}',
    "a raw surrogate": b'{"agentId": "\xed\xa0\x80"}',
    "UTF-16": '{"agentId": "tester"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"agentId": "tester"}'.encode("utf-16-le"),
    "UTF-32": '{"agentId": "tester"}'.encode("utf-32"),
    "a raw NUL": b'{"agentId": "te\x00ster"}',
    "a raw line break": b'{"agentId": "te\nster"}',
    "single quotes": b"{'agentId': 'tester'}",
    "a comment": b'{"agentId": "tester" /* x */}',
    "a list": b"[]",
    "text": b'"tester"',
    "null": b"null",
    "a number": b"1",
}
FAULTY = {
    "an escaped surrogate": rb'{"agentId": "tester", "userId": "\ud800"}',
    "an escaped NUL": rb'{"agentId": "\u0000"}',
    "a surrogate in a value": rb'{"agentId": "tester", "tenvs": {"a": "\ud800"}}',
    "a surrogate as a tag": rb'{"agentId": "tester", "tags": ["\udfff"]}',
    "a surrogate as a field": rb'{"agentId": "tester", "\ud800": 1}',
    "an unknown field": b'{"agentId": "tester", "admin": true}',
    "a very long field": b'{"agentId": "tester", "' + b"x" * 1_000_000 + b'": 1}',
    "very many fields": json.dumps({"agentId": "tester", **{f"f{n}": n for n in range(20_000)}}).encode(),
    **{
        f"{field} as {value}": b'{"agentId": "tester", "%s": %s}' % (field.encode(), value.encode())
        for field, values in {
            "userId": ("1", "1.5", "true", "[]", "{}"),
            "tags": ("1", "1.5", "true", '""', "{}"),
            "arguments": ("1", "1.5", "true", '""', "[]"),
        }.items()
        for value in values
    },
    "a number for an agent": b'{"agentId": 1}',
    "nothing for an agent": b'{"agentId": null}',
    "tags of all types": b'{"agentId": "tester", "tags": [null, 1, {}, []]}',
}


async def nothing_changed(api: Api) -> None:
    assert (await api.get("/api/threads"))["threads"] == []
    assert (await api.get("/api/runs"))["runs"] == []


async def test_invalid_bodies_change_nothing() -> None:
    async with serving() as api:
        for name, body in {**NO_JSON, **FAULTY}.items():
            response = await api.client.post("/api/threads", content=body)
            shown = read(response, 400)
            assert len(response.content) < 60_000, name
            assert shown["error"], name
        missing = await api.client.post("/api/threads", content=b'{"agentId": "' + b"x" * 1_000 + b'"}')
        assert len(read(missing, 404)["error"]) < 3_000
        await nothing_changed(api)


def configured(**parts: JSON) -> JSON:
    return {"name": "a", "config": parts}


def _of(body: JSON, length: int) -> str:
    return json.dumps(body).replace("LONG", "x" * length)


@pytest.mark.parametrize(
    ("route", "body", "path", "most"),
    [
        ("threads", {"agentId": "LONG"}, "agentId", 1_000),
        ("threads", {"agentId": "tester", "userId": "LONG"}, "userId", 1_000),
        ("threads", {"agentId": "tester", "tags": ["a", "LONG"]}, "tags.1", 200),
        ("agents", configured(agent={"system": "LONG"}), "config.agent.system", 65_536),
        ("agents", configured(model="LONG"), "config.model", 200),
        ("agents", configured(model={"provider": "test", "name": "LONG"}), "config.model.name", 200),
        ("agents", {"name": "a", "description": "LONG", "config": {}}, "description", 100_000),
        ("entities", {"type": "human", "displayName": "LONG"}, "displayName", 200),
        ("spaces", {"name": "LONG"}, "name", 200),
    ],
)
async def test_names_and_ids_have_a_length_that_an_error_names(
    route: str, body: JSON, path: str, most: int
) -> None:
    async with serving() as api:
        words = f"must have at most {most} characters"
        fitting = await api.client.post(f"/api/{route}", content=_of(body, most))
        assert words not in fitting.text
        shown = read(await api.client.post(f"/api/{route}", content=_of(body, most + 1)), 400)
        assert shown["error"].startswith(f"{path} {words}")
        assert {"path": path, "message": words} in shown["details"]


@pytest.mark.parametrize("route", ["entities", "spaces", "clients"])
async def test_keys_of_metadata_have_a_length(route: str) -> None:
    async with serving() as api:
        body = {"metadata": {"x" * 201: 1}} | ({"type": "human"} if route == "entities" else {})
        shown = read(await api.client.post(f"/api/{route}", json=body), 400)
        assert shown["error"].startswith("metadata must have keys of at most 200 characters")


async def test_threads_created_in_python_have_the_same_length_limits() -> None:
    async with running(ScriptedModel([])) as rig:
        for path, faulty in {"user_id": {"user_id": "x" * 1_001}, "tags": {"tags": ["x" * 201]}}.items():
            with pytest.raises(InvalidRequest, match=f"{path} must have at most") as refused:
                await rig.rt.threads.create("tester", **faulty)  # type: ignore[arg-type]  # one of them
            assert refused.value.details[0]["path"] == path


@pytest.mark.parametrize("body", [*NO_JSON.values(), b'{"content": 1}', b'{"content": null}', b"{}"])
async def test_invalid_messages_and_results_change_nothing(body: bytes) -> None:
    async with serving() as api:
        thread_id = await api.thread()
        read(await api.client.post(f"/api/threads/{thread_id}/messages", content=body), 400)
        read(await api.client.post("/api/runs/x/tool-results", content=body), 400)
        assert (await api.get("/api/runs"))["runs"] == []


async def test_what_is_odd_but_right_is_taken() -> None:
    good = [
        nested(64),
        '{"agentId": "tester", "userId": "\u2028\u2029\ufeff"}'.encode(),
        b' \r\n\t{"agentId":"tester","tags":[]} ',
        rb'{"agentId": "tester", "userId": "\ud83d\ude00"}',
        b'{"agentId": "tester", "arguments": {"": "'
        + b"x" * 1_000_000
        + b'", "n": 1e308, "\\u0000": "\\ud83d\\ude00"}}',
        b'\xef\xbb\xbf{"agentId": "tester"}',
    ]
    async with serving() as api:
        for body in good:
            read(await api.client.post("/api/threads", content=body), 201)


@pytest.mark.parametrize("nesting", [4, 10])
async def test_the_nesting_can_be_set_lower(nesting: int) -> None:
    async with serving(max_nesting=nesting) as api:
        read(await api.client.post("/api/threads", content=nested(nesting)), 201)
        shown = read(await api.client.post("/api/threads", content=nested(nesting + 1)), 400)
        assert f"deeper than {nesting} levels" in shown["error"]


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x" * 5_000, "json", "\xff"],
)
async def test_other_content_types_are_refused(kind: str) -> None:
    async with serving() as api:
        headers = [(b"content-type", kind.encode("latin-1"))]
        response = await api.client.post("/api/threads", content=b'{"agentId": "tester"}', headers=headers)
        assert len(read(response, 400)["error"]) < 500
        await nothing_changed(api)


async def test_hostile_paths_and_queries_are_refused() -> None:
    ids = [
        "%00",
        "a%00b",
        "%ED%A0%80",
        "%FF",
        "..%2f..%2fetc",
        "%2F",
        "x" * 8_000,
        "%0d%0aSet-Cookie:%20a=b",
        "%25",
    ]
    queries = [
        *(
            "limit=-1",
            "limit=0",
            "limit=1.5",
            "limit=1e3",
            "limit=99999999999999999999999",
            "limit=",
            "limit=NaN",
        ),
        *("offset=-1", "offset=1.5", "offset=99999999999999999999", "offset=x", "limit=1&limit=-1"),
        "limit=" + "9" * 5_000,
    ]
    async with serving() as api:
        for each in ids:
            for path in (
                *("threads/{}", "threads/{}/messages", "runs/{}", "runs/{}/events", "agents/{}/inbox"),
                *("agents/{}/goals", "agents/{}/memories", "agents/{}/plans"),
            ):
                response = await api.client.get("/api/" + path.format(each))
                assert response.status_code in (400, 404), (each, path)
                assert isinstance(response.json()["error"], str)
                assert len(response.content) < 6_000
                assert "set-cookie" not in response.headers
            for path in ("agents/tester/inbox/{}/retry", "runs/{}/cancel"):
                assert (await api.client.post("/api/" + path.format(each))).status_code in (400, 404)
        for query in queries:
            for path in (
                "/api/threads",
                "/api/runs",
                "/api/calls",
                "/api/agents",
                "/api/agents/tester/inbox",
                "/api/agents/tester/goals",
                "/api/agents/tester/memories",
                "/api/agents/tester/plans",
            ):
                read(await api.client.get(f"{path}?{query}"), 400)
        await nothing_changed(api)


async def raw(api: Api, request: bytes, *, end: bool = False) -> bytes:
    """Return the server's answer to these bytes, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(request)
    if end:
        writer.write_eof()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


HEAD = b"POST /api/threads HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "request_",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n",
        b"GET /api/threads HTTP/1.1\r\n\r\n",
        b"GET /api/threads HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /api/threads HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n{}",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
        HEAD + b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_http_is_refused_in_json(request_: bytes) -> None:
    async with serving() as api:
        answer = await raw(api, request_)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split()[1].startswith(b"4"), answer
        assert b"content-type: application/json" in head.lower()
        assert isinstance(json.loads(body)["error"], str)
        await nothing_changed(api)


async def test_a_length_that_lies_changes_nothing() -> None:
    async with serving() as api:
        body = b'{"agentId": "tester"}'
        await raw(api, HEAD + b"Content-Length: 100\r\n\r\n" + body, end=True)
        answer = await raw(api, HEAD + b"Content-Length: 5\r\n\r\n" + body)
        assert answer.split()[1] == b"400"
        await nothing_changed(api)


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with serving(body_grace=0.1) as api:
        for start in (b"Content-Length: 1000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"):
            answer = await raw(api, HEAD + start)
            assert answer.split()[1] == b"408"
        await nothing_changed(api)


async def test_only_where_attachments_may_come_a_body_may_be_larger() -> None:
    async def chunks(size: int) -> AsyncGenerator[bytes]:
        for _ in range(size // 2**20):
            yield b" " * 2**20

    async with serving() as api:
        messages = f"/api/threads/{await api.thread()}/messages"
        for path, limit in (("/api/threads", 10), (messages, 36)):
            for content in (b" " * (limit * 2**20 + 1), chunks((limit + 1) * 2**20)):
                read(await api.client.post(path, content=content), 413)
            fits = b'{"x": 1' + b" " * (limit * 2**20 - 10) + b"}"
            read(await api.client.post(path, content=fits), 400)
        read(await api.client.get(messages), 200)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_python_callers_get_the_same_errors_from_every_journal(
    kind: str, request: pytest.FixtureRequest
) -> None:
    from contextlib import AsyncExitStack  # noqa: PLC0415

    from tests.postgres_server import fresh_database  # noqa: PLC0415
    from toolwright.adapters.store.opening import open_postgres  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(fresh_database()) if kind == "postgres" else ""
        path = request.getfixturevalue("tmp_path") / "t.db"

        async def store(bus: MemoryBus) -> Store:
            return await (open_postgres(url, bus.publish) if url else sqlite_journal(path, bus.publish))

        rig = await stack.enter_async_context(
            running(ScriptedModel([{"text": "Hi."}]), store=None if kind == "memory" else store)
        )
        rt, agent = rig.rt, await rig.rt.agents.get("tester")
        missing: list[tuple[type[ToolwrightError], object]] = []
        for bad in ("\ud800", "\0", "none"):
            missing += [
                (NotFound, rt.threads.get(bad)),
                (NotFound, rt.threads.messages(bad)),
                (NotFound, rt.threads.send(bad, "x")),
                (NotFound, rt.threads.cancel(bad)),
                (NotFound, rt.runs.get(bad)),
                (NotFound, rt.runs.wait(bad, 1)),
                (NotFound, rt.runs.cancel(bad)),
                (NotFound, rt.calls.get(bad)),
                (NotFound, rt.calls.submit(bad, bad, 1)),
                (NotFound, rt.inboxes.list(agent.id, bad)),
                (NotFound, rt.inboxes.retry(agent.id, bad)),
                (NotFound, rt.minds.goals(bad)),
                (NotFound, rt.minds.plans(5)),  # type: ignore[arg-type]  # hostile
            ]
        topic = Topic(kind="thread", id="none")
        for limit, offset in ((-1, 0), (1, -1), (2**70, 0), (1, 2**70), (1.5, 0), (True, 0)):
            missing += [
                (InvalidRequest, rt.threads.list(limit=limit, offset=offset)),  # type: ignore[arg-type]  # hostile
                (InvalidRequest, rt.threads.messages("x", limit, offset)),  # type: ignore[arg-type]  # hostile
                (InvalidRequest, rt.runs.list(limit=limit, offset=offset)),  # type: ignore[arg-type]  # hostile
                (InvalidRequest, rt.calls.list(limit=limit, offset=offset)),  # type: ignore[arg-type]  # hostile
                (InvalidRequest, rt.inboxes.list(agent.id, None, limit, offset)),  # type: ignore[arg-type]  # hostile
                (InvalidRequest, rt.minds.memories("tester", limit, offset)),  # type: ignore[arg-type]  # hostile
                (InvalidRequest, rt.events.list(topic, offset, limit)),  # type: ignore[arg-type]  # hostile
            ]
        for bad in ("\ud800", "\0"):
            missing += [
                (InvalidRequest, rt.threads.list(bad)),
                (InvalidRequest, rt.runs.list(agent=bad)),
                (InvalidRequest, rt.runs.list(thread_id=bad)),
                (InvalidRequest, rt.calls.list(run_id=bad)),
            ]
        for error, asked in missing:
            with pytest.raises(error):
                await asked  # type: ignore[misc]  # all of them are coroutines
        deep: list[object] = []
        for _ in range(70):
            deep = [deep]
        with pytest.raises((InvalidJSON, NotFound)):
            await rt.calls.submit("x", "x", deep)  # type: ignore[arg-type]  # hostile
