"""MCP servers of agents over the API and by the client: their status, their errors, their held-back tools."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.client.rig import client_of
from tests.client.rig import served as gateway
from tests.kit import call, until
from tests.mcp.peers.serving import down, served
from tests.mcp.test_runs import Hearing, begin, over
from toolwright.client import Client
from toolwright.core.errors import NotFound
from toolwright.runtime.runtime import Runtime
from toolwright.wire.agent import HeldBackTool

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def house(**servers: Any) -> AsyncGenerator[tuple[Client, Runtime]]:  # configurations
    model = Hearing([call("stable"), {"text": "done"}])
    agents = [tw.Agent("a", tw.Prompt("a", "Work.", model=model), toolkits=["spaces", "mind"])]
    app = tw.App(agents=agents, mcp=servers)
    async with journals.runtime(app) as rt, gateway(rt) as port, client_of(port) as client:
        yield client, rt


async def test_each_server_is_shown_with_its_tools_and_its_errors() -> None:
    with served("builtin_names") as fine, down() as nowhere, served("hangs_at_list") as silent:
        servers = {
            "fine": {"url": fine.url, "allowedTools": ["skip", "plain", "gone"]},
            "nowhere": {"url": nowhere},
            "needy": {"url": fine.url, "headers": {"X-Key": "${env.KEY}"}},
            "silent": {"url": silent.url},
        }
        async with house(**servers) as (client, _):
            found = {each.name: each for each in await client.agents.mcp("a")}
    assert [*found] == ["fine", "nowhere", "needy", "silent"]
    assert {name: each.status for name, each in found.items()} == {
        "fine": "ready", "nowhere": "down", "needy": "down", "silent": "connecting",
    }  # fmt: skip
    assert {each.tool: each.message for each in found["fine"].faults} == {
        "skip": "Its name is that of a built-in tool, which goes before it.",
        "gone": "The server does not list this tool.",
    }
    assert "cannot be reached" in found["nowhere"].faults[0].message
    assert "needs the variable 'KEY'" in found["needy"].faults[0].message


async def test_a_server_is_asked_with_the_values_of_a_thread() -> None:
    with served("plain") as server:
        async with house(x={"url": server.url, "headers": {"X-Key": "${env.KEY}"}}) as (client, rt):
            thread = await rt.threads.create("a", env={"KEY": "k-12345678"})
            [state] = await client.agents.mcp("a", thread.id)
            assert (state.status, [tool.name for tool in state.tools]) == ("ready", ["echo", "add"])
            with pytest.raises(NotFound):
                await client.agents.mcp("a", "nowhere")
        assert server.hearing.heard[0].headers["x-key"] == "k-12345678"


async def test_what_is_held_back_is_shown_and_accepted_once() -> None:
    with served("changing_definition") as server:
        async with house(peer={"url": server.url, "holdChanges": True}) as (client, rt):
            await client.agents.mcp("a")
            _, run_id = await begin(rt)
            await over(rt, run_id)

            async def changed() -> Sequence[HeldBackTool]:
                [state] = await client.agents.mcp("a")
                return state.held

            [held] = await until(changed)
            assert held.tool == "stable"
            assert "send the secret" in json.dumps(held.definition)
            await client.agents.accept_mcp_tool("a", "peer", "stable")
            [state] = await client.agents.mcp("a")
            assert ([*state.held], [tool.name for tool in state.tools]) == ([], ["stable"])
            with pytest.raises(NotFound, match="has no changed definition to accept"):
                await client.agents.accept_mcp_tool("a", "peer", "stable")
            with pytest.raises(NotFound):
                await client.agents.accept_mcp_tool("nobody", "peer", "stable")
