"""`/mcp` at the gateway: allowed callers, rejected requests, and hostile ones."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

import toolwright as tw
from tests.kit import hanging
from tests.mcp.server_rig import REVISIONS, Host, Revision, Wire, hosting
from tests.postgres_server import fresh_database
from toolwright.web.auth.access import Signer, TokenIdentity
from toolwright.web.mcp import sessions
from toolwright.web.mcp.server import McpEndpoint
from toolwright.web.mcp.sessions import KEY as KEY_OF_SESSION
from toolwright.wiring.gateway import gateway
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

KEY = "a-secret-key-of-some-length"


@tw.tool(description="Add.")
def add(a: int, b: int) -> int:
    return a + b


waiting = tw.Tool(name="ask_outside", description="Ask.", kind="external", is_async=True)
APP = tw.App(tools=[add, waiting], mcp_server={"people": "all"})


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("headers", [{"x-secret-key": KEY}, {"authorization": f"Bearer {KEY}"}])
async def test_a_service_calls_with_its_key_in_either_header(
    revision: Revision, headers: dict[str, str]
) -> None:
    async with hosting(APP, secret_keys=(KEY,)) as host:
        async with host.client(revision, headers) as client:
            assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error
        [call] = await host.rt.calls.list(status=["done"])
        assert (await host.rt.threads.get(call.thread_id)).user_id is None


@pytest.mark.parametrize(
    "headers",
    [{}, {"x-secret-key": "wrong"}, {"authorization": "Bearer wrong"}, {"authorization": "Basic x"}],
)
async def test_without_a_key_no_one_calls_a_server_that_has_some(headers: dict[str, str]) -> None:
    async with hosting(APP, secret_keys=(KEY,)) as host, host.wire("2026-07-28", headers) as wire:
        for method in ("GET", "POST", "DELETE"):
            response = await wire.http.request(method, "/mcp", content=b"{}")
            assert response.status_code == 401
            assert response.json()["code"] == "unauthorized"


@pytest.mark.parametrize("scope", ["metrics", "read"])
async def test_a_key_that_may_only_read_calls_no_tool(scope: str) -> None:
    keys = (f"scraper({scope})={KEY}",)
    async with hosting(APP, secret_keys=keys) as host:
        async with host.wire("2026-07-28", {"x-secret-key": KEY}) as wire:
            for method in ("GET", "POST", "DELETE"):
                response = await wire.http.request(method, "/mcp", content=b"{}")
                assert response.status_code == 403
                assert response.json()["error"].endswith("this needs a key with the scope 'all'.")
        assert await host.rt.calls.list() == []


async def _verify(token: str) -> TokenIdentity:
    return TokenIdentity(external_id=token, until=None)


async def test_a_persons_calls_are_theirs() -> None:
    options: dict[str, Any] = {"secret_keys": (KEY,), "public_keys": ("pk",), "verify_token": _verify}
    async with hosting(APP, **options) as host:
        ada = await host.rt.entities.create(external_id="ada")
        await host.rt.entities.create(external_id="bob")
        headers = {"x-public-key": "pk", "authorization": "Bearer ada"}
        async with host.wire("legacy", headers) as wire:
            made = await wire.call("ask_outside", task={})
            task_id = made["result"]["task"]["taskId"]
            assert (await wire.request("tasks/get", {"taskId": task_id}))["result"]["status"] == "working"
            session = dict(wire.session)
        call = await host.rt.calls.get(task_id)
        assert (await host.rt.threads.get(call.thread_id)).user_id == ada.id
        async with host.wire("legacy", {**headers, "authorization": "Bearer bob"}) as wire:
            refused = await wire.request("tasks/get", {"taskId": task_id})
            assert refused["error"]["message"].startswith("Unknown task")
            assert (await wire.request("tasks/list"))["result"]["tasks"] == []
            wire.session = session  # another caller's session
            stolen = await wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert stolen.status_code == 404
        async with host.wire("2026-07-28", {"x-public-key": "pk", "authorization": "Bearer eve"}) as wire:
            assert (await wire.post({})).status_code == 403


async def test_a_server_without_keys_is_for_this_machine_alone() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            response = await wire.http.post("/mcp", content=b"{}", headers=headers)
            assert response.status_code == 403


async def test_a_slash_at_the_end_of_the_address_makes_no_difference() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        answers = [await wire.http.post(path, content=b"{}") for path in ("/mcp", "/mcp/")]
        assert answers[0].status_code == answers[1].status_code != 404
        assert answers[0].content == answers[1].content


async def test_the_gateway_has_no_such_route_unless_it_is_set() -> None:
    async with hosting(APP, mcp=None) as host, host.wire("2026-07-28") as wire:
        assert (await wire.post({})).status_code == 404


async def test_the_setting_opens_it_and_the_end_of_the_gateway_ends_its_sessions() -> None:
    settings = Settings(database_url="memory://", mcp_server=True)
    application = gateway(APP, settings)
    async with application.router.lifespan_context(application):
        transport = httpx2.ASGITransport(application, client=("127.0.0.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            wire = Wire(http, "legacy")
            await wire.initialize()
            assert (await wire.request("tools/list"))["result"]["tools"][0]["name"] == "add"
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "toolwright-mcp"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}', 400),
        (b"[" * 100_000, 413),
        (b"[" * 1000 + b"]" * 1000, 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}', 400),
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_is_no_request_is_refused_in_words(revision: Revision, body: bytes, status: int) -> None:
    async with hosting(APP) as host, host.wire(revision) as wire:
        headers = {} if revision == "legacy" else {"mcp-protocol-version": revision, "mcp-method": "ping"}
        response = await wire.post(body, headers)
        assert response.status_code == status, response.text
        assert response.json()["error"]
        assert (await wire.request("tools/list"))["result"]["tools"]


async def test_a_body_of_thirty_megabytes_is_refused() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        response = await wire.post(b'"' + b"x" * 30_000_000 + b'"')
        assert response.status_code == 413
        many = await wire.post(json.dumps([1] * 200_000))
        assert many.status_code == 413


async def test_an_unknown_session_is_not_there() -> None:
    async with hosting(APP) as host, host.wire("legacy") as wire:
        wire.session["mcp-session-id"] = "unknown"
        response = await wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert response.status_code == 404


async def test_two_requests_of_one_id_are_both_answered_or_refused() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        wire_two = Wire(wire.http, "2026-07-28")
        one, two = await asyncio.gather(
            wire.call("add", {"a": 1, "b": 1}), wire_two.call("add", {"a": 2, "b": 2})
        )
        assert (one["id"], two["id"]) == (1, 1)
        texts = {answer["result"]["content"][0]["text"] for answer in (one, two)}
        assert texts == {"2", "4"}


async def test_a_host_that_goes_away_in_the_middle_cancels_its_call() -> None:
    wait, begun = hanging("wait")

    async with hosting(tw.App(tools=[wait])) as host:
        async with host.wire("2026-07-28") as wire:
            calling = asyncio.create_task(wire.call("wait"))
            await begun.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
        [run] = await host.rt.runs.list()
        assert (await host.rt.runs.wait(run.id, 10)).status == "cancelled"


async def test_a_handler_that_swallows_its_cancellation_blocks_no_other() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tw.tool(description="Wait.")
    async def stubborn() -> str:
        begun.set()
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    async with hosting(tw.App(tools=[stubborn, add])) as host:
        async with host.wire("2026-07-28") as wire:
            calling = asyncio.create_task(wire.call("stubborn"))
            await begun.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
        async with host.wire("2026-07-28") as wire:
            assert (await wire.call("add", {"a": 1, "b": 2}))["result"]["content"][0]["text"] == "3"
        go_on.set()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_that_stops_waits_for_no_call(revision: Revision) -> None:
    begun, closing = asyncio.Event(), asyncio.Event()

    @tw.tool(description="Wait.")
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async with hosting(tw.App(tools=[wait]), closing=closing) as host, host.wire(revision) as wire:
        calling = asyncio.create_task(wire.call("wait"))
        await begun.wait()
        closing.set()
        answers = await asyncio.gather(calling, return_exceptions=True)
        assert isinstance(answers[0], BaseException) or "error" in answers[0]
        refused = await wire.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert refused.status_code == 503


async def test_many_calls_at_once_are_all_answered() -> None:
    many = 120
    limits = httpx2.Limits(max_connections=50)
    async with (
        hosting(APP) as host,
        httpx2.AsyncClient(base_url=host.url, limits=limits, timeout=100) as http,
    ):
        wires = [Wire(http, "2026-07-28") for _ in range(many)]
        answers = await asyncio.gather(*[wire.call("add", {"a": n, "b": 1}) for n, wire in enumerate(wires)])
    assert [answer["result"]["content"][0]["text"] for answer in answers] == [str(n + 1) for n in range(many)]


async def test_a_call_is_seen_over_the_api_like_any() -> None:
    async with hosting(APP) as host, host.wire("2026-07-28") as wire:
        await wire.call("add", {"a": 1, "b": 2})
        [call] = (await wire.http.get("/api/calls?status=done")).json()["calls"]
        assert (call["toolName"], call["result"]) == ("add", 3)
        [run] = (await wire.http.get("/api/runs")).json()["runs"]
        assert (run["id"], run["status"]) == (call["runId"], "completed")
        assert run["agentId"] == "agt_app-tools"
        thread = (await wire.http.get(f"/api/threads/{run['threadId']}")).json()["thread"]
        assert thread["status"] == "idle"
        for path in ("messages", "files", "children"):
            assert (await wire.http.get(f"/api/threads/{run['threadId']}/{path}")).status_code == 200
        events = (await wire.http.get(f"/api/runs/{run['id']}/events")).json()["events"]
        assert events[-1]["type"] == "run.completed"
        assert (await wire.http.get("/api/agents")).json()["agents"] == []
        said = await wire.http.post(f"/api/threads/{run['threadId']}/messages", json={"content": "Hm?"})
        assert said.status_code == 409


async def test_a_page_of_an_allowed_origin_may_be_a_host() -> None:
    origin = "https://inspector.example"
    async with hosting(APP, cors_origins=(origin,)) as host, host.wire("legacy") as wire:
        asked = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "mcp-session-id, mcp-protocol-version, mcp-method, mcp-name",
        }
        assert (await wire.http.options("/mcp", headers=asked)).status_code == 200
        listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        response = await wire.post(listed, {"origin": origin})
        assert response.status_code == 200
        assert response.headers["access-control-expose-headers"].lower() == "mcp-session-id"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_waiting_host_is_notified_that_the_call_goes_on(revision: Revision) -> None:
    seen: list[float] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        assert (total, message) == (None, "ask_slowly has not finished yet")
        seen.append(progress)

    slow = tw.Tool(name="ask_slowly", description="Ask.", kind="external", timeout=0.7)
    hosted = hosting(tw.App(tools=[slow]), mcp=partial(McpEndpoint, beat=0.1))
    async with hosted as host, host.client(revision) as client:
        result = await client.call_tool("ask_slowly", {}, progress_callback=told)
    assert result.is_error
    assert len(seen) > 1
    assert seen == sorted(set(seen))


async def lists_tools(wire: Wire) -> bool:
    """Return whether the wire's session still exists."""
    response = await wire.post({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
    assert response.status_code in (200, 404), response.text
    return response.status_code == 200


async def test_a_session_too_many_ends_the_one_of_its_caller_that_was_idle_for_longest() -> None:
    bounded = partial(McpEndpoint, most_sessions=(3, 4))
    options: dict[str, Any] = {"secret_keys": (KEY,), "public_keys": ("pk",), "verify_token": _verify}
    async with hosting(APP, mcp=bounded, **options) as host, AsyncExitStack() as stack:
        await host.rt.entities.create(external_id="ada")

        async def opened(headers: dict[str, str]) -> Wire:
            return await stack.enter_async_context(host.wire("legacy", headers))

        service, ada = {"x-secret-key": KEY}, {"x-public-key": "pk", "authorization": "Bearer ada"}
        first, second, third = [await opened(service) for _ in range(3)]
        assert await lists_tools(first)  # so that the second one is idle for longer
        fourth = await opened(service)
        assert [await lists_tools(each) for each in (first, second, third, fourth)] == [
            True,
            False,
            True,
            True,
        ]
        hers = [await opened(ada), await opened(ada)]  # the second one exceeds the total limit
        assert [await lists_tools(each) for each in hers] == [True, True]
        assert [await lists_tools(each) for each in (first, third, fourth)] == [False, True, True]


async def test_a_session_too_many_is_refused_if_all_others_are_in_use() -> None:
    bounded = partial(McpEndpoint, most_sessions=(1, 4))
    async with hosting(APP, mcp=bounded) as host, host.wire("legacy") as wire:
        headers = {"accept": "text/event-stream", **wire.session}
        async with wire.http.stream("GET", "/mcp", headers=headers) as stream:
            assert stream.status_code == 200
            async with host.wire("2026-07-28") as other:
                other.revision = "legacy"
                info = {"name": "wire", "version": "1"}
                params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
                body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
                refused = await other.post(body)
                assert refused.status_code == 503
                assert "1 session" in refused.json()["error"]
                assert refused.json()["error"].endswith("End one of them, or try again later.")
            assert await lists_tools(wire)


@asynccontextmanager
async def two_nodes(tmp_path: Path, **options: Any) -> AsyncGenerator[tuple[Host, Host]]:
    """Serve the app by two processes of a cluster that know each other."""
    async with fresh_database() as url, AsyncExitStack() as stack:
        settings = Settings(database_url=url, cluster="postgres", files_url=str(tmp_path))
        hosts = [
            await stack.enter_async_context(
                hosting(APP, await stack.enter_async_context(APP.runtime(settings)), is_node=True, **options)
            )
            for _ in range(2)
        ]
        yield hosts[0], hosts[1]


async def known(host: Host, session_id: str) -> None:
    """Wait until that process knows the owner of the session."""
    async with asyncio.timeout(60):
        while True:
            if host.rt.events.bus.shared(f"{KEY_OF_SESSION}{session_id}"):
                return
            await asyncio.sleep(0.01)


async def test_a_request_at_any_process_reaches_the_one_in_which_its_session_is(tmp_path: Path) -> None:
    headers = {"x-secret-key": KEY}
    async with (
        two_nodes(tmp_path, secret_keys=(KEY,)) as (one, two),
        one.wire("legacy", headers) as here,
        two.wire("2026-07-28", headers) as there,
    ):
        await known(two, here.session["mcp-session-id"])
        away = Wire(there.http, "2025-11-25")
        away.session = here.session
        assert (await away.call("add", {"a": 1, "b": 2}))["result"]["content"][0]["text"] == "3"
        stream = {**here.session, "accept": "text/event-stream"}
        async with there.http.stream("GET", "/mcp", headers=stream) as listening:
            assert (listening.status_code, listening.headers["mcp-session-id"]) == (
                    200, here.session["mcp-session-id"],
                )  # fmt: skip
        stranger = {**here.session, "accept": "text/event-stream", "x-secret-key": "wrong"}
        assert (await there.http.get("/mcp", headers=stranger)).status_code == 401
        ended = await there.http.delete("/mcp", headers=here.session)
        assert ended.status_code == 200
        assert (await here.post({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})).status_code == 404


@pytest.mark.parametrize("spite", ["unsigned", "of another session", "gone"])
async def test_a_request_goes_to_no_process_that_has_not_signed_its_address_or_is_gone(
    tmp_path: Path, spite: str
) -> None:
    reached = list[bytes]()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.read(10))
        writer.close()

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    about = "0123" if spite == "of another session" else "4567"
    if spite == "gone":
        server.close()
    headers = {"x-secret-key": KEY, "mcp-session-id": "4567"}
    async with two_nodes(tmp_path, secret_keys=(KEY,)) as (one, two):
        signed = await Signer(one.rt.keys.signing, "address of an mcp session").seal(
            f"{about} {url}".encode()
        )
        one.rt.events.bus.share(f"{KEY_OF_SESSION}4567", f"4567 {url}" if spite == "unsigned" else signed)
        await known(two, "4567")
        async with two.wire("2026-07-28", headers) as wire:
            response = await wire.post(
                {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"mcp-protocol-version": "2025-11-25"}
            )
            assert response.status_code == 404
    server.close()
    assert reached == []


async def test_a_request_to_a_frozen_process_ends_once_that_is_known_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "CHECK_INTERVAL", 0.05)
    monkeypatch.setattr(sessions, "CONNECT", 0.5)
    reached = asyncio.Event()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        reached.set()
        await asyncio.Event().wait()  # no answer ever arrives

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    headers = {"x-secret-key": KEY, "mcp-session-id": "4567"}
    async with two_nodes(tmp_path, secret_keys=(KEY,)) as (one, two):
        signature = Signer(one.rt.keys.signing, "address of an mcp session")
        one.rt.events.bus.share(f"{KEY_OF_SESSION}4567", await signature.seal(f"4567 {url}".encode()))
        await known(two, "4567")
        async with two.wire("2026-07-28", headers) as wire, asyncio.timeout(60):
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            asking = asyncio.create_task(wire.post(asked, {"mcp-protocol-version": "2025-11-25"}))
            await reached.wait()
            one.rt.events.bus.share(f"{KEY_OF_SESSION}4567", None)
            assert (await asking).status_code == 404
    server.close()


async def test_without_secret_keys_too_a_session_is_used_at_every_process(tmp_path: Path) -> None:
    async with (
        two_nodes(tmp_path) as (one, two),
        one.wire("legacy", {}) as here,
        two.wire("2026-07-28", {}) as there,
    ):
        await known(two, here.session["mcp-session-id"])
        away = Wire(there.http, "2025-11-25")
        away.session = here.session
        assert (await away.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).status_code == 200
