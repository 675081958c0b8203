"""Agents of one app that share a server, and attempts to get more of it than the configuration allows."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

import toolwright as tw
from tests.mcp.client_rig import calling
from tests.mcp.peers.bare import Bare, Line, encoded
from tests.mcp.peers.peer import Asked, JSONObject, Peer, tool
from tests.mcp.peers.serving import Served, command, served, started
from toolwright import testing
from toolwright.adapters.executors.request import resolve
from toolwright.adapters.mcp.peer import Peer as Caller
from toolwright.adapters.mcp.servers import McpConnections
from toolwright.core.mcp.servers import McpUnavailable
from toolwright.core.threads.message import Message
from toolwright.core.tools.mcp import McpServer, McpTarget, target_of
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio
SECRET = "sk-no-one-may-read-this"


def agent(name: str, url: str, *calls: str, env: dict[str, str] | None = None, **server: Any) -> tw.Agent:
    """Return an agent with that name and server (as `peer`), which calls these tools without arguments."""
    model = testing.ScriptedModel(calling(*calls))
    options = {"peer": {"url": url, **server}}
    return tw.Agent(name, tw.Prompt(name, "Work.", model=model), mcp=options, env=env or {})


async def run(rt: Runtime, name: str, **thread: Any) -> list[Message]:
    """Return the tool messages of a run of that agent in a new thread."""
    begun = await rt.threads.create(name, **thread)
    done = await rt.runs.wait((await rt.threads.send(begun.id, "Go")).id, timeout=60)
    assert done.status == "completed", done.error
    return [each for each in await rt.threads.messages(begun.id) if each.role == "tool"]


async def test_each_agent_has_a_server_that_they_share_with_its_own_options() -> None:
    with served("plain") as peer:
        wide = agent("wide", peer.url)
        options: dict[str, Any] = {"allowedTools": ["add"], "visible": True, "timeout": 7_000}
        narrow = agent("narrow", peer.url, "echo", **options)
        async with testing.runtime(tw.App(agents=[wide, narrow])) as rt:
            await run(rt, "wide")
            (refused,) = await run(rt, "narrow")
            assert '"error_code":"unknown_tool"' in refused.content
            seen = {each: (await rt.mcp.of(each))[0].tools for each in ("wide", "narrow")}
    assert [tool.name for tool in seen["wide"]] == ["echo", "add"]
    assert [(tool.name, tool.visible, tool.timeout) for tool in seen["narrow"]] == [("add", True, 7.0)]


async def test_threads_of_one_agent_have_the_tools_that_the_server_lists_for_each_of_them() -> None:
    async def listed(asked: Asked) -> JSONObject:
        return {"tools": [tool(f"tool_of_{asked.headers['x-user']}")]}

    tools = [tool("tool_of_anna"), tool("tool_of_bert")]
    peer = Served(Peer(tools=tools, answers={"tools/list": listed}))
    peer.start()
    try:
        each = agent("a", peer.url, "tool_of_anna", headers={"X-User": "${env.USER}"})
        async with testing.runtime(tw.App(agents=[each])) as rt:
            (known,) = await run(rt, "a", env={"USER": "anna"})
            (unknown,) = await run(rt, "a", env={"USER": "bert"})
    finally:
        peer.stop()
    assert known.status == "success"
    assert "The tools are: tool_of_bert" in unknown.content, "not those of the other thread's list"


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_private_address_is_said_to_be_one_whatever_the_transport(transport: str) -> None:
    config: Any = {"mcp": {"servers": [{"name": "x", "url": "http://127.0.0.1:9/", "transport": transport}]}}
    async with testing.runtime(tw.App()) as rt:
        await rt.agents.save("a", config)
        (server,) = await rt.mcp.of("a")
    assert [fault.message for fault in server.faults] == [
        "The server cannot be used: it has an address that is not public; TOOLWRIGHT_HTTP_ALLOW may allow it."
    ]


@pytest.mark.parametrize("place", ["url", "headers"])
@pytest.mark.parametrize("name", ["tells_token", "plain"])
async def test_what_a_server_is_told_in_secret_is_in_no_error_and_no_log(
    name: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with served(name) as peer:
        url = f"{peer.url}?key=${{env.TOKEN}}" if place == "url" else peer.url
        headers = {"Authorization": "Bearer ${env.TOKEN}"} if place == "headers" else {}
        app = tw.App(agents=[agent("a", url, env={"TOKEN": SECRET}, headers=headers)])
        async with testing.runtime(app) as rt:
            (server,) = await rt.mcp.of("a")  # outside a run, so that there is no redactor of a thread
            await run(rt, "a")
    assert (server.status == "ready") == (name == "plain")
    assert SECRET not in repr(server)
    assert [line for line in caplog.messages if SECRET in line] == []


async def test_a_secret_in_a_message_that_the_sdk_cannot_read_is_in_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def call(message: JSONObject, line: Line) -> None:
        async def messages() -> AsyncIterator[bytes]:
            params = {
                "progressToken": message["params"]["_meta"]["progressToken"],
                "message": {"key": SECRET},
            }
            yield encoded({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            yield encoded({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": SECRET}})
            yield encoded({"jsonrpc": "2.0", "id": message["id"], "result": [SECRET]})

        await line.stream(messages())

    caplog.set_level("DEBUG")
    with started(Served(Bare(answers={"tools/call": call}))) as peer:
        headers = {"Authorization": "Bearer ${env.TOKEN}"}
        app = tw.App(agents=[agent("a", peer.url, "plain", env={"TOKEN": SECRET}, headers=headers)])
        async with testing.runtime(app) as rt:
            (answer,) = await run(rt, "a")
    assert '"error_code":"mcp_bad_answer"' in answer.content
    assert "[redacted:TOKEN]" in caplog.text, "the SDK reports what it cannot read"
    assert SECRET not in caplog.text


async def test_a_connection_makes_room_for_others_only_while_no_call_is_in_progress_on_it() -> None:
    connections = McpConnections(resolve=resolve, most=1)
    busy, other, third = [nowhere(name) for name in ("busy", "other", "third")]
    connection = connections.connection(busy)
    async with connection.calling(cast("Caller", object())):
        connections.connection(other)
        assert connections.connection(busy) is connection
    connections.connection(third)
    assert connections.connection(busy) is not connection
    await connections.aclose()


async def test_waiters_for_a_connection_that_is_closed_stop_waiting() -> None:
    connections = McpConnections(resolve=resolve)
    with served("hangs_at_connect") as peer:
        target = target_of(McpServer(name="slow", url=peer.url), {})
        waiting = asyncio.create_task(connections.task(target, "t1"))
        await asyncio.sleep(0)
        await connections.aclose()
        with pytest.raises(McpUnavailable, match="closed"):
            await asyncio.wait_for(waiting, 20)


async def test_nothing_of_a_connection_is_left_once_all_are_closed() -> None:
    connections = McpConnections(resolve=resolve, most=1)
    for name in ("first", "second"):
        assert (await connections.listing(stdio(name), 30)).status == "ready"
    await connections.aclose()
    await asyncio.sleep(0)
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in names if name.startswith("mcp-")] == []


def stdio(name: str) -> McpTarget:
    """A plain server on stdio, under that name."""
    program, *arguments = command("plain", None)
    return target_of(McpServer(name=name, transport="stdio", command=program, args=tuple(arguments)), {})


def nowhere(name: str) -> McpTarget:
    """A server of that name that no one answers for."""
    return target_of(McpServer(name=name, url="http://127.0.0.1:9/mcp"), {})
