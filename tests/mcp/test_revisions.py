"""The option `revision` of a server: the only protocol revision used with it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.kit import call, send_to
from tests.mcp.client_rig import calling, configured, hosting
from tests.mcp.test_runs import REVISIONS, over, question
from toolwright import testing
from toolwright.adapters.mcp.executor import CALL_AGAIN
from toolwright.core.tools.mcp import McpServer, target_of

pytestmark = pytest.mark.anyio

ASKS = """
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("asks")

class Size(BaseModel):
    size: str

@server.tool()
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Which size?", Size)
    return answer.data.size if answer.action == "accept" else answer.action

server.run()
"""


@pytest.mark.parametrize("way", ["http", "json", "sse", "stdio"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_server_is_spoken_with_in_the_revision_that_its_option_names(revision: str, way: str) -> None:
    with configured("plain", way) as (server, _):
        async with hosting({**server, "revision": revision}, calling("own")) as host:
            assert await host.status() == "ready", await host.faults()
            [state] = await host.rt.mcp.of("host")
    assert state.protocol == revision


@pytest.mark.parametrize("way", ["http", "stdio"])
@pytest.mark.parametrize(("spoken", "named"), [REVISIONS, REVISIONS[::-1]])
async def test_a_server_that_speaks_another_revision_is_down_and_says_why(
    spoken: str, named: str, way: str
) -> None:
    with configured("plain", way, revision=spoken) as (server, _):
        async with hosting({**server, "revision": named}, calling("own")) as host:
            assert await host.status() == "down"
            assert f"it does not support {named}" in await host.faults()
            assert "option revision" in await host.faults()


def test_servers_of_two_revisions_share_no_connection() -> None:
    servers = [
        McpServer(name="x", url="http://x", revision=each) for each in (None, "2025-11-25", "2026-07-28")
    ]
    assert len({target_of(server, {}).key for server in servers}) == 3


READS = "tool(annotations=ToolAnnotations(readOnlyHint=True))"


def app(folder: Path, calls: int = 1, source: str = ASKS, **options: Any) -> tw.App:
    """Run an agent whose server's tool asks with `ctx.elicit` of the SDK."""
    (folder / "asks.py").write_text(source, encoding="utf-8")
    server = {"command": sys.executable, "args": [str(folder / "asks.py")], **options}
    model = testing.ScriptedModel([*[call("ask")] * calls, {"text": "done"}])
    return tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Work.", model=model))], mcp={"peer": server})


async def test_a_tool_that_asks_by_the_context_of_the_sdk_does_so_in_2025(tmp_path: Path) -> None:
    async with testing.runtime(app(tmp_path, revision="2025-11-25")) as rt:
        run = await send_to(rt, "a")
        asked = await question(rt, run.id)
        await rt.calls.submit(run.id, asked.id, {"action": "accept", "content": {"size": "M"}})
        [told] = await over(rt, run.id)
    assert told.content == "M"


async def test_without_the_option_a_tool_that_cannot_ask_is_called_again_where_it_can(tmp_path: Path) -> None:
    async with testing.runtime(app(tmp_path, calls=2)) as rt:
        run = await send_to(rt, "a")
        asked = await question(rt, run.id)
        await rt.calls.submit(run.id, asked.id, {"action": "accept", "content": {"size": "M"}})
        refused, told = await over(rt, run.id)
    assert CALL_AGAIN in json.loads(refused.content)["error"]
    assert told.content == "M"


async def test_a_read_only_tool_that_cannot_ask_is_called_again_by_itself(tmp_path: Path) -> None:
    async with testing.runtime(app(tmp_path, source=ASKS.replace("tool()", READS))) as rt:
        run = await send_to(rt, "a")
        asked = await question(rt, run.id)
        await rt.calls.submit(run.id, asked.id, {"action": "accept", "content": {"size": "M"}})
        [told] = await over(rt, run.id)
    assert told.content == "M"
