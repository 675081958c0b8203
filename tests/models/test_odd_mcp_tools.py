"""A server of the official MCP SDK with an unusual tool and a normal one: the agent gets both, or the normal one."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

import toolwright as tw
from tests.kit import ran, until
from tests.models.wire_server import WireCall, WireServer
from toolwright import testing
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.gateway import gateway

pytestmark = pytest.mark.anyio

PROGRAM = """
import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

EITHER = {"type": "object", "oneOf": [
    {"properties": {"by[name]": {"type": "string"}}, "required": ["by[name]"]},
    {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
]}
WITHIN = {"type": "object", "properties": {"a": {"$ref": "#/anyOf/0"}}, "anyOf": [{}]}
PLAIN = {"type": "object", "properties": {"n": {"type": "integer"}}}

async def list_tools(context, params):
    schemas = {"find": EITHER, "within": WITHIN, "fine": PLAIN}
    return ListToolsResult(tools=[Tool(name=n, description=n, input_schema=s) for n, s in schemas.items()])

async def call_tool(context, params):
    return CallToolResult(content=[TextContent(text=repr(params.arguments))])

async def main():
    server = Server("odd", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

anyio.run(main)
"""


def agent_with(model: PydanticAIModel, folder: Path) -> tw.App:
    """Return an app whose agent has that server."""
    program = folder / "odd.py"
    program.write_text(PROGRAM)
    odd = {"command": sys.executable, "args": [str(program)]}
    return tw.App(agents=[tw.Agent("a", tw.Prompt("a", "Work.", model=model))], mcp={"odd": odd})


async def is_ready(rt: Runtime) -> bool:
    return (await rt.mcp.of("a"))[0].status == "ready"


async def test_an_odd_tool_of_a_server_costs_no_other_tool_and_no_run(
    model: PydanticAIModel, server: WireServer, tmp_path: Path
) -> None:
    key = "by_name" if model.name.startswith("anthropic") else "by[name]"
    calls: list[dict[str, dict[str, Any]]] = [{"find": {key: "x"}}, {"find": {}}, {"fine": {"n": 1}}]
    server.answer(
        calls=[
            WireCall(id=f"c{number}", name=name, arguments=(json.dumps(arguments),))
            for number, each in enumerate(calls)
            for name, arguments in each.items()
        ]
    )
    server.answer(text=["Done."])
    async with testing.runtime(agent_with(model, tmp_path)) as rt:
        # On a busy machine a process can take longer to start than a run waits for it.
        await until(lambda: is_ready(rt))
        run = await ran(rt, "a")
        assert (run.status, run.error) == ("completed", None)
        found, refused, fine = [
            each.content for each in await rt.runs.messages(run.id) if each.role == "tool"
        ]
        assert "{'by[name]': 'x'}" in found
        assert "Invalid arguments" in refused
        assert "{'n': 1}" in fine
        [state] = await rt.mcp.of("a")
        [fault] = state.faults
        assert fault.tool == "within"
        assert [(each.tool, each.message) for each in await rt.mcp.withheld("a")] == [
            ("within", fault.message)
        ]


async def test_services_see_which_tools_a_model_is_not_offered(
    model: PydanticAIModel, server: WireServer, tmp_path: Path
) -> None:
    application = gateway(agent_with(model, tmp_path), tw.Settings(database_url=f"sqlite:///{tmp_path}/t.db"))
    async with (
        application.router.lifespan_context(application),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(application), base_url="http://localhost"
        ) as client,
    ):

        async def ready() -> dict[str, Any] | None:  # JSON
            shown = (await client.get("/api/agents/a/mcp")).json()
            return shown if shown["servers"][0]["status"] == "ready" else None

        answer = await until(ready)
    [fault] = answer["withheld"]
    assert fault["tool"] == "within"
    assert answer["servers"][0]["faults"] == [fault]
