"""Servers that misbehave: the agent starts, its other tools work, and the API reports the errors."""

import asyncio
import time
from itertools import count

import httpx2
import pytest

from tests.mcp.client_rig import calling, configured, hosting, meeting
from tests.mcp.peers.bare import TOOL, Bare, JSONObject, Line, result
from tests.mcp.peers.lists import WRONG_SCHEMAS
from tests.mcp.peers.peer import Asked, Peer
from tests.mcp.peers.serving import Served, down, served, started
from toolwright.adapters.mcp.connection import McpConnection
from toolwright.adapters.mcp.peer import MAX_MESSAGE
from toolwright.adapters.mcp.transport import Lost
from toolwright.core.tools.mcp import McpServer, McpTarget, Transport, target_of

pytestmark = pytest.mark.anyio

USABLE = [
    # peer, transport, the error that the API reports (empty if none)
    ("plain", "http", ""),
    ("plain", "sse", ""),
    ("plain", "stdio", ""),
    ("polite_bare", "http", ""),
    ("polite_bare", "stdio", ""),
    ("slow", "http", ""),
    ("many_tools", "http", "lists 10000 tools"),
    ("many_pages", "http", "too long|10000 tools"),
    ("huge_list", "json", ""),
    ("endless_pages", "http", "too long|tools"),
    ("cursor_loop", "http", "does not end"),
    ("wrong_schemas", "http", "unknown_type"),
    ("wrong_tools", "http", "no name"),
    ("odd_names", "http", "-|name"),
    ("duplicate_names", "http", "listed twice"),
    ("builtin_names", "http", ""),
    ("restless", "http", ""),
    ("unknown_methods", "http", ""),
    ("junk_on_stdout", "stdio", ""),
    ("junk_on_stderr", "stdio", ""),
    ("ignores_sigterm", "stdio", ""),
    ("forks_a_child", "stdio", ""),
]
UNUSABLE = [
    ("refuses", "http", "401"),
    ("refuses", "stdio", ""),
    ("server_errors", "http", ""),
    ("no_mcp", "http", ""),
    ("redirects", "http", ""),
    ("wrong_json", "http", ""),
    ("wrong_json", "stdio", ""),
    ("empty_pages", "http", "too long"),
    ("unknown_revision", "http", ""),
    ("huge_schema", "json", "100000 JSON values"),
    ("deep_list", "http", "100000 JSON values"),
    ("deep_list", "stdio", ""),
    ("hangs_at_connect", "http", ""),
    pytest.param("hangs_at_connect", "stdio", "", marks=pytest.mark.exhaustive),  # these wait for seconds
    pytest.param("hangs_at_greeting", "http", "", marks=pytest.mark.exhaustive),
    pytest.param("hangs_at_list", "http", "", marks=pytest.mark.exhaustive),
    ("exits", "stdio", ""),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way", "fault"), USABLE)
async def test_the_agent_starts_and_its_own_tool_works_beside_a_strange_server(
    name: str, way: str, fault: str
) -> None:
    async with meeting(name, calling("own"), way) as host:
        ran = await host.run()
        assert (ran.run.status, ran.results["own"]) == ("completed", "own result")
        assert await host.status() == "ready"
        told = await host.faults()
        assert not fault or any(words in told for words in fault.split("|")), told


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way", "fault"), UNUSABLE)
async def test_the_agent_starts_and_its_own_tool_works_beside_a_server_that_cannot_be_used(
    name: str, way: str, fault: str
) -> None:
    async with meeting(name, calling("own"), way) as host:
        ran = await host.run()
        assert (ran.run.status, ran.results["own"]) == ("completed", "own result")
        assert await host.status() in ("down", "connecting") or fault
        told = await host.faults()
        assert fault in told
        assert await host.tools() == []


async def test_a_server_that_is_down_is_used_once_it_is_there() -> None:
    with served("plain") as peer:
        peer.stop()
        async with hosting({"url": peer.url}, calling("own", "add", args={})) as host:
            assert (await host.run()).results["own"] == "own result"
            assert "cannot be used" in await host.faults()
            peer.start()
            await host.until(["echo", "add"])
            assert await host.faults() == ""


async def test_a_missing_command_and_an_address_without_a_server_are_reported() -> None:
    async with hosting({"command": "no-such-program-of-anybody"}, calling("own")) as host:
        assert (await host.run()).run.status == "completed"
        assert "cannot be started" in await host.faults()
    with down() as url:
        async with hosting({"url": url}, calling("own")) as host:
            assert (await host.run()).run.status == "completed"
            assert "cannot be used" in await host.faults()


async def test_tools_with_wrong_schemas_are_left_out_one_by_one() -> None:
    async with meeting("wrong_schemas", calling("plain")) as host:
        assert (await host.run()).results["plain"] == "{}"
        tools, told = await host.tools(), await host.faults()
    unusable = {
        "unknown_type",
        "type_is_a_number",
        "root_is_a_list",
        "root_is_null",
        "root_is_false",
        "bad_pattern",
    }
    assert not unusable & set(tools)
    assert set(WRONG_SCHEMAS) - set(tools) >= unusable
    assert "unknown_type" in told


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {"plain": TOOL}}])
async def test_an_answer_without_a_list_of_tools_is_reported(page: JSONObject) -> None:
    async def listed(asked: Asked) -> JSONObject:
        return page

    with started(Served(Peer(answers={"tools/list": listed}))) as peer:
        async with hosting({"url": peer.url}, calling("own")) as host:
            assert (await host.run()).results["own"] == "own result"
            assert "The server's answer to tools/list has no list of tools." in await host.faults()
            assert await host.tools() == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_list_that_changes_is_read_again(revision: str) -> None:
    turns = calling("grow", "grown_0")
    with served("changing_tools", revision) as peer:
        async with hosting({"url": peer.url}, turns) as host:
            await host.run()
            await host.until(["grow", "shrink", "grow_silently", "grown_0"])


async def test_allowed_tools_are_enforced_when_listing_and_when_calling() -> None:
    async with meeting("plain", calling("add"), settings={"allowedTools": ["echo"]}) as host:
        ran = await host.run()
        assert await host.tools() == ["echo"]
        assert "echo" in ran.results["add"]
        assert not host.hearing.of("tools/call")


async def test_the_pages_of_a_list_are_together_no_larger_than_a_message() -> None:
    async def page(message: JSONObject, line: Line) -> None:
        number = len(peer.hearing.of("tools/list"))
        listed = {**TOOL, "name": f"tool_{number}", "description": "x" * (MAX_MESSAGE // 2)}
        await line.answer(result(message, {"tools": [listed], "nextCursor": str(number)}))

    peer = Bare(answers={"tools/list": page})
    at_work = Served(peer)
    at_work.start()
    try:
        async with hosting({"url": at_work.url}, calling("own")) as host:
            assert await host.status() == "ready"
            assert await host.tools() == ["tool_1", "tool_2"]
            assert "too long" in await host.faults()
    finally:
        at_work.stop()


async def test_builtin_names_cannot_be_taken() -> None:
    async with meeting("builtin_names", calling("plain")) as host:
        assert (await host.run()).results["plain"] == "{}"


@pytest.mark.parametrize("name", ["tells_token"])
async def test_a_secret_that_a_server_tells_back_is_not_shown(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with served(name) as peer:
        headers = {"authorization": "Bearer ${env.TOKEN}"}
        env = {"TOKEN": {"value": "hunter2-hunter2", "type": "secret"}}
        async with hosting({"url": peer.url, "headers": headers}, calling("own"), env) as host:
            assert (await host.run()).run.status == "completed"
            assert await host.status() == "down"
            assert peer.hearing.heard[0].headers["authorization"] == "Bearer hunter2-hunter2"
            assert "hunter2-hunter2" not in await host.faults()
    assert "hunter2-hunter2" not in caplog.text


async def test_a_server_that_speaks_sse_alone_says_which_transport_to_set() -> None:
    with configured("plain", "sse") as (server, _):
        async with hosting({"url": server["url"]}, calling("own")) as host:
            assert await host.status() == "down"
            fault = 'it speaks the older transport SSE: set transport "sse".'
            assert await host.faults() == f"-: The server cannot be used: {fault}"


class Breaking(httpx2.AsyncClient):
    """A client that raises an error in place of the cancellation that closes it, as the SDK's task groups can."""

    withdraws = False

    async def __aexit__(self, *error: object) -> None:
        await super().aclose()
        task = asyncio.current_task()
        if self.withdraws and task is not None:
            task.uncancel()
        raise RuntimeError("broken")


class Withdrawing(Breaking):
    withdraws = True


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("client", [Breaking, Withdrawing])
async def test_a_connection_is_closed_although_its_cancellation_is_replaced_by_an_error(
    client: type[Breaking], transport: Transport
) -> None:
    def breaking(target: McpTarget, lost: Lost) -> Breaking:
        return client()

    reached = asyncio.Event()

    async def hear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()  # and never answers
        await writer.wait_closed()

    listener = await asyncio.start_server(hear, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    target = target_of(McpServer(name="silent", url=url, transport=transport), {})
    connection = McpConnection(target, breaking, time.monotonic, count(1))
    async with asyncio.timeout(20):  # otherwise it would reconnect for ever
        await reached.wait()
        await connection.close()
    listener.close()
