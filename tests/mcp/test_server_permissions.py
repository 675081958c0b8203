"""Permissions over MCP: which caller can call which tool, from which pages, and the answer without a key."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

import mcp
import toolwright as tw
from tests.mcp.server_rig import REVISIONS, Host, Revision, Wire, hosting
from tests.mcp.test_server_stdio import APP, server
from toolwright.core.errors import DefinitionError
from toolwright.web.auth.access import TokenIdentity
from toolwright.web.dependencies import Serving
from toolwright.web.shares import Rates
from toolwright.wiring.gateway import gateway
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

KEY = "a-secret-key-of-some-length"
SERVICE = {"x-secret-key": KEY}
PERSON = {"x-public-key": "pk", "authorization": "Bearer ada"}
LISTED = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def _tool(name: str, **marks: Any) -> tw.Tool:
    return tw.Tool(name=name, description="Ask.", kind="external", is_async=True, **marks)


TOOLS = [_tool("look", read_only=True), _tool("put", idempotent=True), _tool("send")]
ALL = ["look", "put", "send"]


async def _verify(token: str) -> TokenIdentity:
    return TokenIdentity(external_id=token, until=None)


def _served(mcp_server: Any = None, **options: Any) -> Any:
    app = tw.App(tools=TOOLS, mcp_server=mcp_server)
    return hosting(app, secret_keys=(KEY,), public_keys=("pk",), verify_token=_verify, **options)


async def _listed(wire: Wire) -> list[str]:
    return [each["name"] for each in (await wire.request("tools/list"))["result"]["tools"]]


async def _begun(host: Host, tool: str, owner: str | None) -> str:
    """Return the id of a pending call of that tool, made for that person or for a service."""
    call = host.rt.app_calls.new()
    with host.rt.app_calls.watch(call) as watch:
        await host.rt.app_calls.make(call, tool, {}, owner)
        while await watch.row() is None:
            await watch.next(10)
    return call.id


@pytest.mark.parametrize(
    ("mcp_server", "people", "services"),
    [
        (None, ["look"], ALL),
        ({}, ["look"], ALL),
        ({"people": "all"}, ALL, ALL),
        ({"people": "none", "services": "read_only"}, [], ["look"]),
        ({"people": ["put"], "services": "none"}, ["put"], []),
        ({"people": "read_only", "services": ["send", "look"]}, ["look"], ["look", "send"]),
    ],
)
@pytest.mark.parametrize("kind", ["people", "services"])
async def test_a_caller_lists_calls_and_finds_the_tools_that_are_permitted(
    kind: str, mcp_server: Any, people: list[str], services: list[str]
) -> None:
    permitted = people if kind == "people" else services
    async with _served(mcp_server) as host:
        ada = await host.rt.entities.create(external_id="ada")
        owner = ada.id if kind == "people" else None
        async with host.wire("legacy", PERSON if kind == "people" else SERVICE) as wire:
            assert await _listed(wire) == permitted
            before = {name: await _begun(host, name, owner) for name in ALL}
            tasks = (await wire.request("tasks/list"))["result"]["tasks"]
            seen = {each["taskId"] for each in tasks}
            for name in ALL:
                assert (before[name] in seen) is (name in permitted)
                await _check_tool(wire, name, before[name], permitted=name in permitted)
        called = [each.name for each in await host.rt.calls.list(status=["pending", "cancelled"])]
        assert sorted(called) == sorted(ALL + permitted)  # rejected calls are recorded nowhere


async def _check_tool(wire: Wire, name: str, task_id: str, *, permitted: bool) -> None:
    """Make a call as a task; read, cancel and fetch the result of an earlier task."""
    made = await wire.call(name, task={})
    if permitted:
        assert made["result"]["task"]["status"] == "working"
        assert (await wire.request("tasks/get", {"taskId": task_id}))["result"]["status"] == "working"
        assert (await wire.request("tasks/cancel", {"taskId": task_id}))["result"]["status"] == "cancelled"
        return
    assert made["error"]["message"] == f"Unknown tool: {name}"
    assert (await wire.call(name))["error"]["message"] == f"Unknown tool: {name}"
    for method in ("tasks/get", "tasks/cancel", "tasks/result"):
        refused = await wire.request(method, {"taskId": task_id})
        assert refused["error"]["message"].startswith("Unknown task")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_person_calls_what_only_reads_and_nothing_else(revision: Revision) -> None:
    done: list[str] = []

    @tw.tool(description="Look.", read_only=True)
    def look() -> str:
        return "seen"

    @tw.tool(description="Send.")
    def send() -> str:
        done.append("sent")
        return "sent"

    app = tw.App(tools=[look, send])
    options: dict[str, Any] = {"public_keys": ("pk",), "verify_token": _verify}
    async with hosting(app, **options) as host:
        await host.rt.entities.create(external_id="ada")
        async with host.wire(revision, PERSON) as wire:
            assert await _listed(wire) == ["look"]
            assert (await wire.call("look"))["result"]["content"][0]["text"] == "seen"
            assert (await wire.call("send"))["error"]["message"] == "Unknown tool: send"
    assert done == []


async def test_a_gateway_and_the_command_permit_what_the_app_does(tmp_path: Path) -> None:
    app = tw.App(tools=TOOLS, mcp_server={"services": ["put"]})
    application = gateway(app, Settings(database_url="memory://", mcp_server=True))
    async with application.router.lifespan_context(application):
        transport = httpx2.ASGITransport(application, client=("127.0.0.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            wire = Wire(http, "legacy")
            await wire.initialize()
            assert await _listed(wire) == ["put"]
    program = server(tmp_path)
    permitted = APP.replace("mcp_server={", 'mcp_server={"services": ["add"], ')
    (tmp_path / "app.py").write_text(permitted, encoding="utf-8")
    async with mcp.Client(program, mode="2026-07-28") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]


@pytest.mark.parametrize(
    ("mcp_server", "message"),
    [
        (
            "all",
            "App: mcp_server must be a dict with the keys people, services, prompts, resources, not 'all'.",
        ),
        (
            {"person": "all"},
            "App: mcp_server has no key 'person': it has people, services, prompts, resources.",
        ),
        (
            {"people": "some"},
            "App: mcp_server: people must be 'all', 'read_only', 'none' or a list of tools' names, not 'some'.",
        ),
        (
            {"services": [1]},
            "App: mcp_server: services must be 'all', 'read_only', 'none' or a list of tools' names, "
            "not a value of the type list.",
        ),
        ({"people": ["loook"]}, "App: mcp_server names the tool 'loook', which the app does not have."),
    ],
)
def test_what_permits_nothing_that_there_is_is_refused(mcp_server: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        tw.App(tools=TOOLS, mcp_server=mcp_server)
    assert caught.value.message == message


@pytest.mark.parametrize("headers", [SERVICE, PERSON, {}])
@pytest.mark.parametrize(
    "foreign",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"host": "evil.example:8000", "origin": "http://evil.example:8000"},
    ],
)
async def test_a_foreign_page_is_refused_although_there_are_keys(
    headers: dict[str, str], foreign: dict[str, str]
) -> None:
    async with _served() as host:
        await host.rt.entities.create(external_id="ada")
        async with host.wire("2026-07-28", headers) as wire:
            for method in ("GET", "POST", "DELETE"):
                response = await wire.http.request(method, "/mcp", content=b"{}", headers=foreign)
                assert response.status_code == 403
                assert response.json()["code"] == "forbidden"


@pytest.mark.parametrize(
    "allowed",
    [
        {},
        {"origin": "https://words.example"},
        {"host": "words.example"},
        {"host": "words.example", "origin": "https://words.example"},
        {"host": "localhost:1", "origin": "http://127.0.0.1:6274"},
    ],
)
async def test_the_servers_own_pages_and_those_of_its_list_are_served(allowed: dict[str, str]) -> None:
    async with _served(cors_origins=("https://words.example",)) as host, host.wire("legacy", SERVICE) as wire:
        assert (await wire.post(LISTED, allowed)).status_code == 200


async def test_a_server_for_pages_of_every_origin_refuses_none() -> None:
    async with _served(cors_origins=("*",)) as host, host.wire("legacy", SERVICE) as wire:
        assert (await wire.post(LISTED, {"origin": "https://any.example"})).status_code == 200


@pytest.mark.parametrize(
    "headers", [{}, {"x-secret-key": "wrong"}, {"authorization": "Bearer wrong"}, {"x-public-key": "pk"}]
)
async def test_a_caller_without_a_key_is_told_how_to_send_one(headers: dict[str, str]) -> None:
    async with _served() as host, host.wire("2026-07-28", headers) as wire:
        for method in ("GET", "POST", "DELETE"):
            response = await wire.http.request(method, "/mcp", content=b"{}")
            assert response.status_code == 401
            assert response.headers["www-authenticate"] == "Bearer"
            assert response.json()["code"] == "unauthorized"


@pytest.mark.parametrize("revision", ["legacy", "2026-07-28"])
async def test_the_requests_of_a_person_count_for_their_rate_of_changes(revision: str) -> None:
    async with _served() as host:
        await host.rt.entities.create(external_id="ada")
        parts: Serving = host.application.state.serving
        async with host.wire(revision, PERSON) as wire, host.wire(revision, SERVICE) as services:
            parts.changes = Rates(2, 0.001, lambda: 0.0)
            for _ in range(2):
                assert await _listed(wire) == ["look"]
            refused = await wire.post(LISTED)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1000")
            assert refused.json()["code"] == "too_many_requests"
            for _ in range(3):
                assert await _listed(services) == ALL
