"""The peers behave as their names say: tested by the SDK's own client, over HTTP, SSE and stdio, in both revisions."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.sse import sse_client
from mcp.shared.exceptions import MCPError

from mcp import Client, StdioServerParameters
from tests.mcp.peers.catalogue import MODULES, NAMES_PROCESSES, NAMES_SDK, NAMES_WIRE, says
from tests.mcp.peers.lists import MANY, ODD_NAMES, PAGE, WRONG_SCHEMAS
from tests.mcp.peers.results import RESULTS
from tests.mcp.peers.serving import command, down, made, served, spawned
from tests.mcp.peers.tasks import EXTENSION

pytestmark = pytest.mark.anyio

REVISIONS = ("2025-11-25", "2026-07-28")
SOON = 0.3
"""Seconds to wait for an event that must not happen."""


async def answer(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Fill in every form."""
    content: Any = {"email": "ada@example.com"} if params.mode == "form" else None
    return types.ElicitResult(action="accept", content=content)


async def sample(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    """Answer as a model that knows one city."""
    content = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=content, model="m")


@asynccontextmanager
async def client_of(target: Any, **options: Any) -> AsyncGenerator[Client]:  # options of the client
    """Connect the SDK's client, which answers all questions."""
    async with Client(target, elicitation_callback=answer, sampling_callback=sample, **options) as client:
        yield client


@asynccontextmanager
async def met(name: str, revision: str = "2025-11-25") -> AsyncGenerator[Client]:
    """Run that peer over HTTP, in that revision."""
    mode = "legacy" if revision == "2025-11-25" else revision
    with served(name) as peer:
        async with client_of(peer.url, mode=mode) as client:
            yield client


def over_stdio(name: str, revision: str | None = None) -> StdioServerParameters:
    """Return the command of that peer."""
    program, *arguments = command(name, revision)
    return StdioServerParameters(command=program, args=arguments)


async def posted(url: str, method: str, **params: Any) -> dict[str, Any]:  # parameters of the protocol
    """Return the raw result of a request of 2026-07-28 by a client with the extension for tasks."""
    capabilities: dict[str, Any] = {"extensions": {EXTENSION: {}}, "elicitation": {"form": {}}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": CLIENT,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "mcp-name": params.get("name", params.get("taskId", "")),
    }
    async with httpx2.AsyncClient(headers={**ACCEPT, **headers}, verify=False) as client:
        return await sent(client, url, method, {**params, "_meta": meta})


# parameters of the protocol
async def posted_of_2025(url: str, method: str, **params: Any) -> dict[str, Any]:
    """Return the raw result of a request of 2025-11-25 after the handshake."""
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    async with httpx2.AsyncClient(headers=ACCEPT, verify=False) as client:
        await sent(client, url, "initialize", greeting)
        return await sent(client, url, method, params)


async def sent(client: httpx2.AsyncClient, url: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of one request, or the whole message for an error."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answered = await client.post(url, json=body)
    client.headers.update({key: value for key, value in answered.headers.items() if key == "mcp-session-id"})
    frames = [line[6:] for line in answered.text.splitlines() if line.startswith("data: {")]
    message: dict[str, Any] = json.loads(frames[-1] if frames else answered.text)
    return message.get("result", message)


ACCEPT = {"accept": "application/json, text/event-stream"}
CLIENT = {"name": "test", "version": "1"}
POSTED = {"2025-11-25": posted_of_2025, "2026-07-28": posted}


def test_every_peer_is_made_and_says_what_it_does() -> None:
    assert len(MODULES) == len(NAMES_SDK) + len(NAMES_WIRE) + len(NAMES_PROCESSES)
    for name in MODULES:
        assert says(name).strip().endswith("."), name
        made(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES_SDK)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_peer_of_the_sdk_greets_over_http_in_both_revisions(name: str, revision: str) -> None:
    if name == "tasks_of_2025" and revision != "2025-11-25":
        return
    async with met(name, revision) as client:
        assert client.protocol_version == revision


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_peer_of_one_revision_refuses_the_other(revision: str) -> None:
    with served("plain", revision) as peer:
        async with client_of(peer.url) as client:
            assert client.protocol_version == revision
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "add"]
    async with client_of(over_stdio("plain", revision)) as client:
        assert client.protocol_version == revision
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}


async def test_a_peer_is_served_over_the_transport_of_2024() -> None:
    with served("plain", transport="sse") as peer:
        async with client_of(sse_client(peer.url), mode="legacy") as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}


async def test_a_peer_is_served_by_a_process_of_its_own_and_by_none() -> None:
    with spawned("plain") as url:
        async with client_of(url) as client:
            assert len((await client.list_tools()).tools) == 2
    with down() as url, pytest.raises(BaseException):  # noqa: B017 - any exception of the SDK
        async with client_of(url):
            raise AssertionError("nobody is there")


async def test_lists_are_many_paged_without_end_or_huge() -> None:
    for name in ("many_tools", "huge_list"):
        with served(name, transport="json") as peer:
            async with client_of(peer.url, mode="legacy") as client:
                tools = (await client.list_tools()).tools
        assert len(tools) == MANY or sum(len(tool.description or "") for tool in tools) > 20_000_000
    async with met("many_pages") as client:
        page = await client.list_tools()
        assert (len(page.tools), page.next_cursor) == (PAGE, str(PAGE))
        assert (await client.list_tools(cursor=str(MANY - PAGE))).next_cursor is None
    for name in ("endless_pages", "cursor_loop", "empty_pages"):
        async with met(name) as client:
            page = await client.list_tools(cursor="7")
            assert page.next_cursor


@pytest.mark.parametrize("revision", REVISIONS)
async def test_schemas_names_and_hints_go_out_as_they_are(revision: str) -> None:
    shown: dict[str, list[Any]] = {}
    for name in ("wrong_schemas", "odd_names", "wrong_tools", "hints"):
        with served(name) as peer:
            shown[name] = (await POSTED[revision](peer.url, "tools/list"))["tools"]
    schemas = {each["name"]: each.get("inputSchema") for each in shown["wrong_schemas"]}
    assert {name: schemas[name] for name in WRONG_SCHEMAS} == WRONG_SCHEMAS
    assert [each["name"] for each in shown["odd_names"]] == [*ODD_NAMES, "plain"]
    assert shown["wrong_tools"][:2] == [None, "tool"]
    assert shown["hints"][0]["annotations"] == {"readOnlyHint": True}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_results_go_out_as_they_are(revision: str) -> None:
    with served("results", transport="json") as peer:
        for name, result in RESULTS.items():
            answered = await POSTED[revision](peer.url, "tools/call", name=name, arguments={})
            assert {key: answered.get(key) for key in result} == result


async def test_headers_and_calls_are_told() -> None:
    async with met("headers") as client:
        told = (await client.call_tool("headers")).structured_content
        assert told is not None
        assert told["mcp-protocol-version"] == "2025-11-25"
    async with met("counts_calls") as client:
        await client.call_tool("count")
        assert (await client.call_tool("count")).content[0].model_dump()["text"] == "2"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tools_change_and_tell_it(revision: str) -> None:
    told = asyncio.Event()

    async def heard(message: Any) -> None:  # the SDK's union
        if isinstance(message, types.ToolListChangedNotification):
            told.set()

    with served("changing_tools") as peer:
        mode = "legacy" if revision == "2025-11-25" else revision
        async with client_of(peer.url, mode=mode, message_handler=heard) as client:
            if revision == "2025-11-25":
                await client.call_tool("grow")
                await asyncio.wait_for(told.wait(), 20)
            else:
                async with client.listen(tools_list_changed=True) as events:
                    peer.changed()
                    await asyncio.wait_for(anext(aiter(events)), 20)
                    await client.call_tool("grow")
            assert "grown_0" in [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


@pytest.mark.parametrize("name", ["hangs_at_list", "hangs_at_call"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_hangs_is_cancelled_and_heard(name: str, revision: str) -> None:
    method = "tools/list" if name == "hangs_at_list" else "tools/call"
    with served(name) as peer:
        async with client_of(peer.url, mode="legacy" if revision == "2025-11-25" else revision) as client:
            asking = asyncio.ensure_future(
                client.list_tools() if method == "tools/list" else client.call_tool("wait")
            )
            await asyncio.to_thread(peer.hearing.wait_for, method)
            assert not asking.done()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            if method == "tools/call":
                await asyncio.to_thread(peer.hearing.wait_for, "(cancelled)")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_is_reported_before_the_result(revision: str) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def step(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with met("progress", revision) as client:
        await client.call_tool("with_message", progress_callback=step)
    assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_person_is_asked_by_a_form_an_address_and_twice(revision: str) -> None:
    async with met("elicits", revision) as client:
        for name, count in (("form", 1), ("address", 1), ("twice", 2)):
            told = (await client.call_tool(name)).structured_content
            assert told is not None
            assert [each["action"] for each in told["answers"]] == ["accept"] * count
    async with met("elicits_at_once", revision) as client:
        told = (await client.call_tool("both")).structured_content
        assert told is not None
        assert told["answers"][0]["content"] == {"email": "ada@example.com"}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_model_of_the_host_is_asked(revision: str) -> None:
    async with met("samples", revision) as client:
        told = (await client.call_tool("sample")).structured_content
        assert told is not None
        assert told["answers"][0]["content"]["text"] == "Paris"


async def task_of(session: ClientSession, name: str) -> str:
    """Return the id of the task that a call of that tool becomes. The session itself accepts no task as an answer."""
    dispatcher = session._dispatcher  # pyright: ignore[reportPrivateUsage]  # there is no other way
    made = await dispatcher.send_raw_request(
        "tools/call", {"name": name, "arguments": {}, "task": {"ttl": 1_000}}
    )
    assert made["task"]["status"] == "working"
    return str(made["task"]["taskId"])


async def test_calls_become_tasks_of_2025() -> None:
    async with met("tasks") as client:
        session = client.session
        work, asks, endless = [await task_of(session, name) for name in ("work", "asks", "endless")]
        looked = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=work))
        assert (await session.send_request(looked, types.GetTaskResult)).status == "working"
        assert (await end_of(session, work)).structured_content == {"task": work}
        answered = (await end_of(session, asks)).structured_content
        assert answered is not None
        assert answered["answer"]["action"] == "accept"
        cancel = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=endless))
        assert (await session.send_request(cancel, types.CancelTaskResult)).status == "cancelled"
        for name, code in (("fails", types.INTERNAL_ERROR), ("lost", types.INVALID_PARAMS)):
            failing = await task_of(session, name)
            with pytest.raises(MCPError) as caught:
                await end_of(session, failing)
            assert caught.value.code == code
        with pytest.raises(MCPError):
            await client.call_tool("required")


async def end_of(session: ClientSession, task: str) -> types.CallToolResult:
    """Return the answer that the call would have had without a task."""
    request = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task))
    return await session.send_request(request, types.CallToolResult)


async def test_calls_become_tasks_of_the_extension() -> None:
    with served("tasks") as peer:
        shown = await posted(peer.url, "tools/call", name="work", arguments={})
        assert (shown["resultType"], shown["status"]) == ("task", "working")
        assert (await posted(peer.url, "tasks/get", taskId=shown["taskId"]))["status"] == "working"
        assert (await posted(peer.url, "tasks/get", taskId=shown["taskId"]))["result"]["content"]
        asks = await posted(peer.url, "tools/call", name="asks", arguments={})
        await posted(peer.url, "tasks/get", taskId=asks["taskId"])
        waits = await posted(peer.url, "tasks/get", taskId=asks["taskId"])
        assert waits["inputRequests"]["where"]["method"] == "elicitation/create"
        answers = {"where": {"action": "decline"}}
        await posted(peer.url, "tasks/update", taskId=asks["taskId"], inputResponses=answers)
        ended = await posted(peer.url, "tasks/get", taskId=asks["taskId"])
        assert ended["result"]["structuredContent"]["answer"] == {"action": "decline"}
        assert (await posted(peer.url, "tasks/get", taskId="task_99"))["error"][
            "code"
        ] == types.INVALID_PARAMS


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_peer_without_the_sdk_greets_over_http_and_stdio(revision: str) -> None:
    mode = "legacy" if revision == "2025-11-25" else revision
    with served("polite_bare") as peer:
        for target in (peer.url, over_stdio("polite_bare")):
            async with client_of(target, mode=mode) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["plain"]
                assert (await client.call_tool("plain")).content[0].model_dump()["text"] == "fine"


CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "plain"}}


@pytest.mark.parametrize(
    ("name", "method", "expected"),
    [
        ("refuses", "tools/list", 401),
        ("refuses_calls", "tools/call", 403),
        ("server_errors", "tools/list", 500),
        ("redirects", "tools/list", 307),
        ("no_mcp", "tools/list", b"<html>"),
        ("wrong_json", "tools/list", b'{"jsonrpc"'),
        ("wrong_json_result", "tools/call", b"{xxx"),
        ("no_utf8", "tools/call", b"\xff\xfe"),
        ("deep_list", "tools/list", b'{"a":' * 1_000),
        ("deep_result", "tools/call", b"[" * 1_000),
        ("wrong_id", "tools/call", b"987654"),
        ("text_id", "tools/call", b'"5"'),
        ("answers_twice", "tools/call", b"another"),
        ("bare_flood", "tools/call", b"notifications/progress"),
        ("unknown_methods", "tools/call", b"phone/call"),
        ("unknown_revision", "initialize", b"2099-01-01"),
    ],
)
async def test_a_peer_is_wrong_on_the_wire(name: str, method: str, expected: int | bytes) -> None:
    with served(name) as peer:
        async with httpx2.AsyncClient() as client:
            answered = await client.post(peer.url, json={**CALL, "method": method})
    if isinstance(expected, int):
        assert answered.status_code == expected
    else:
        assert expected in answered.content


@pytest.mark.parametrize("name", ["dies_in_call", "dies_in_answer"])
async def test_a_peer_dies_in_the_middle_of_a_call_and_is_there_again(name: str) -> None:
    with served(name) as peer:
        async with httpx2.AsyncClient() as client:
            with pytest.raises(httpx2.TransportError):
                await client.post(peer.url, json=CALL)
            assert (await client.post(peer.url, json={**CALL, "method": "ping"})).status_code == 200
            peer.stop()
            with pytest.raises(httpx2.ConnectError):
                await client.post(peer.url, json=CALL)
            peer.start()
            assert (await client.post(peer.url, json={**CALL, "method": "ping"})).status_code == 200


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("hangs_at_connect", "ping"),
        ("hangs_at_greeting", "initialize"),
        ("drips", "tools/call"),
        ("endless_answer", "tools/call"),
    ],
)
async def test_a_peer_never_comes_to_an_end(name: str, method: str) -> None:
    with served(name) as peer:
        async with httpx2.AsyncClient() as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(SOON):
                    async with client.stream("POST", peer.url, json={**CALL, "method": method}) as answered:
                        async for _ in answered.aiter_raw():
                            pass


class Process:
    """A peer's process, written to and read directly."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ask(self, method: str) -> bytes:
        """Send a request. Return the next line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**CALL, "method": method}).encode() + b"\n")
        return await self.read()

    async def read(self) -> bytes:
        """Return the next line."""
        assert self.process.stdout is not None
        return await self.process.stdout.readline()


@asynccontextmanager
async def process_of(name: str) -> AsyncGenerator[Process]:
    """Run that peer's process; it is killed at the end with its children."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command(name), stdin=pipe, stdout=pipe, stderr=pipe, limit=2**27, start_new_session=True
    )
    try:
        yield Process(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def test_a_process_writes_junk_beside_the_protocol() -> None:
    async with process_of("junk_on_stdout") as peer:
        assert await peer.ask("tools/list") == b"Server starting on stdio...\n"
        assert await peer.read() == b"npm notice\n"
        assert b"plain" in await peer.read()
    async with process_of("junk_on_stderr") as peer:
        assert peer.process.stdin is not None
        peer.process.stdin.write(json.dumps(CALL).encode() + b"\n")
        assert peer.process.stderr is not None
        assert (await peer.process.stderr.readexactly(20)).startswith(b"password=hunter2")


async def test_a_process_outlives_sigterm_and_the_end_of_stdin() -> None:
    async with process_of("ignores_sigterm") as peer:
        await peer.ask("ping")
        peer.process.send_signal(signal.SIGTERM)
        assert b"fine" in await peer.ask("tools/call")
        assert peer.process.stdin is not None
        peer.process.stdin.close()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.process.wait(), SOON)


async def test_a_process_leaves_a_child_behind() -> None:
    async with process_of("forks_a_child") as peer:
        child = int(json.loads(await peer.ask("tools/call"))["result"]["content"][0]["text"])
        peer.process.kill()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer.read(), SOON)
        os.kill(child, signal.SIGKILL)
        assert await peer.read() == b""


async def test_a_process_closes_its_pipes_or_ends() -> None:
    async with process_of("closes_stdin") as peer:
        assert b"plain" in await peer.ask("tools/list")
    async with process_of("closes_stdout") as peer:
        assert await peer.ask("tools/call") == b""
        assert peer.process.returncode is None
    async with process_of("exits") as peer:
        assert await peer.process.wait() == 3
        assert peer.process.stderr is not None
        assert b"no token" in await peer.process.stderr.read()
