"""Resources of servers, read by a model with a tool: text as the result, bytes as a file, if configured."""

import base64
import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

import toolwright as tw
from tests.kit import call
from tests.mcp.peers.peer import Asked, JSONObject, Peer, Revision, text, tool
from tests.mcp.peers.serving import Served, started
from tests.mcp.server_rig import hosting as serving
from tests.mcp.test_runs import REVISIONS, agent, begin, over
from toolwright.web.mcp.content import ALONG

pytestmark = pytest.mark.anyio
READ = "peer__read_resource"
LINK: JSONObject = {"type": "resource_link", "uri": "docs://guide", "name": "guide"}


async def link(_: Asked) -> JSONObject:
    return {**text("See."), "content": [LINK]}


async def read(asked: Asked) -> JSONObject:
    uri = str(asked.params["uri"])
    if uri == "docs://guide":
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "Look first."}]}
    if uri == "docs://logo":
        blob = base64.b64encode(b"\x89PNG").decode()
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": blob}]}
    raise MCPError(types.INVALID_PARAMS, "Resource not found")


@contextmanager
def library(revision: Revision | None = None, **more: Any) -> Generator[str]:  # options of Peer
    """Run a server with resources, and a tool that links to one. Yields its URL."""
    given: dict[str, Any] = {"capabilities": {"resources": {}}, **more}
    peer = Peer(
        tools=[tool("link")],
        calls={"link": link},
        answers={"resources/read": read},
        revision=revision,
        **given,
    )
    with started(Served(peer)) as served:
        yield served.url


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_model_reads_what_a_result_links_to(revision: Revision) -> None:
    with library(revision) as url:
        turns = [call("link"), call(READ, uri="docs://guide"), call(READ, uri="docs://logo")]
        async with agent(url, *turns, call(READ, uri="docs://none"), resources=True) as (rt, _):
            thread_id, run_id = await begin(rt)
            await over(rt, run_id)
            linked, guide, logo, none = [m for m in await rt.threads.messages(thread_id) if m.role == "tool"]
    assert "docs://guide" in linked.content
    assert guide.content == "Look first."
    assert [each.mime_type for each in logo.attachments] == ["image/png"]
    assert "Resource not found" in none.content
    assert [each.tool_name for each in (linked, guide, logo, none)] == ["link", READ, READ, READ]


async def test_there_is_no_tool_for_resources_unless_it_is_asked_for() -> None:
    with library() as url, library(capabilities={}) as without:
        async with agent(url) as (rt, _):
            [state] = await rt.mcp.of("a")
            assert [each.name for each in state.tools] == ["link"]
        async with agent(without, resources=True) as (rt, _):
            [state] = await rt.mcp.of("a")
            assert [each.name for each in state.tools] == ["link"]
            assert [each.message for each in state.faults] == ["The server has no resources."]


# ── our client and our server ───────────────────────────────────────────────────────────────────────────────


@tw.tool(description="Draw.")
def draw() -> tw.ToolResult:
    large = b"x" * (ALONG + 1)
    files = [
        tw.Attachment(name="chart of May.png", mime_type="image/png", data=b"\x89PNG"),
        tw.Attachment(name="all.zip", mime_type="application/zip", data=large),
        tw.Attachment(name="log.txt", mime_type="text/plain", data=large),
    ]
    return tw.ToolResult.ok("See.", tuple(files))


@tw.tool(description="Fail.")
def fail() -> tw.ToolResult:
    picture = tw.Attachment(name="why.png", mime_type="image/png", data=b"\x89PNG")
    failed = tw.ToolResult.fail("No seat.", error_code="sold_out", error_data={"free": 0})
    return dataclasses.replace(failed, attachments=(picture,))


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_of_ours_gives_files_with_their_names_also_those_that_it_links_to(
    revision: str,
) -> None:
    async with (
        serving(tw.App(tools=[draw])) as host,
        agent(f"{host.url}/mcp", call("draw"), revision=revision) as (rt, _),
    ):
        _, run_id = await begin(rt)
        [message] = await over(rt, run_id)
        assert message.content == "See."
        assert [(each.name, each.mime_type) for each in message.attachments] == [
            ("chart of May.png", "image/png"),
            ("all.zip", "application/zip"),
            ("log.txt", "text/plain"),
        ]
        assert [each.size for each in message.attachments] == [4, ALONG + 1, ALONG + 1]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_error_of_a_server_of_ours_is_reported_once_with_its_code_its_data_and_its_files(
    revision: str,
) -> None:
    async with (
        serving(tw.App(tools=[fail])) as host,
        agent(f"{host.url}/mcp", call("fail"), revision=revision) as (rt, _),
    ):
        _, run_id = await begin(rt)
        [message] = await over(rt, run_id)
    assert message.content == '{"error":"No seat.","error_code":"sold_out","free":0}'
    assert [each.name for each in message.attachments] == ["why.png"]


async def test_a_file_that_cannot_be_read_stays_a_link() -> None:
    lost: JSONObject = {"type": "resource_link", "uri": "toolwright://threads/t/files/a.zip", "name": "a.zip"}

    async def linking(_: Asked) -> JSONObject:
        return {"content": [lost]}

    peer = Peer(
        tools=[tool("link")],
        calls={"link": linking},
        answers={"resources/read": read},
        capabilities={"resources": {}},
    )
    with started(Served(peer)) as served:
        async with agent(served.url, call("link")) as (rt, _):
            _, run_id = await begin(rt)
            [message] = await over(rt, run_id)
    assert message.content == "a.zip: toolwright://threads/t/files/a.zip"
