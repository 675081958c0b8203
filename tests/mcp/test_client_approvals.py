"""Calls of the tools of MCP servers that need an approval: the server receives them only after the approval."""

import asyncio

import pytest

from tests.mcp.client_rig import calling, meeting
from toolwright.core.threads.call import Call
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio


async def waiting(rt: Runtime) -> Call:
    async with asyncio.timeout(30):
        while True:
            for each in await rt.calls.list():
                if each.awaits_approval:
                    return each
            await asyncio.sleep(0)


@pytest.mark.parametrize("approved", [True, False])
async def test_the_tools_of_a_server_are_behind_an_approval_but_for_those_that_say_otherwise(
    approved: bool,
) -> None:
    settings = {"requiresApproval": {"by": "service"}, "tools": {"structured": {"requiresApproval": False}}}
    async with meeting("results", calling("structured", "text", "own"), settings=settings) as host:
        running = asyncio.create_task(host.run())
        call = await waiting(host.rt)
        assert (call.name, call.kind, call.attempts) == ("text", "mcp", 0)
        assert [each.params["name"] for each in host.hearing.of("tools/call")] == ["structured"]
        await host.rt.calls.submit(call.run_id, call.id, {"approved": approved})
        ran = await running
    told = [each.params["name"] for each in host.hearing.of("tools/call")]
    assert told == (["structured", "text"] if approved else ["structured"])
    assert ran.results["structured"] == '{"sum":3}'
    assert ("It is sunny." in ran.results["text"]) == approved
    assert ("The call was not approved." in ran.results["text"]) != approved
    assert ran.results["own"] == "own result"
