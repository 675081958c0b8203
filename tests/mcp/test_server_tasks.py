"""Long calls as tasks, in both revisions, also across a restart."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar, cast

import mcp_types
import pytest
from mcp.client import advertise
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Request,
    RequestParams,
    Result,
)
from pydantic import ConfigDict, Field

import mcp
import toolwright as tw
from tests.kit import hanging
from tests.mcp.server_rig import Host, hosting
from toolwright.core.threads.call import is_over
from toolwright.runtime.pending.app_calls import call_of
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

TASKS = "io.modelcontextprotocol/tasks"

outside = tw.Tool(name="ask_outside", description="Ask.", kind="external", is_async=True)
waited = tw.Tool(name="ask_and_wait", description="Ask.", kind="external", timeout=0.5)


@tw.tool(description="Add.")
def add(a: int, b: int) -> int:
    return a + b


class AnyResult(Result):
    """A result as on the wire."""

    model_config = ConfigDict(extra="allow")


class Params(RequestParams):
    """Parameters that are passed on unchanged."""

    model_config = ConfigDict(extra="allow")
    task_id: str | None = Field(default=None, alias="taskId")


class TaskRequest(Request[Params, str]):
    """A request of the extension, or of the core of 2025-11-25."""

    method: str
    params: Params
    name_param: ClassVar[str | None] = "taskId"


async def send(client: mcp.Client, method: str, **params: Any) -> dict[str, Any]:
    request = TaskRequest(method=method, params=Params.model_validate(params))
    answer = await client.session.send_request(cast("Any", request), AnyResult)
    return answer.model_dump(by_alias=True, mode="json")


async def task_of(client: mcp.Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a call of a host with tasks."""
    request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
    answer = await client.session.send_request(cast("Any", request), AnyResult)
    return answer.model_dump(by_alias=True, mode="json")


def knowing() -> dict[str, Any]:
    return {"extensions": [advertise(TASKS)]}


async def until_over(host: Host, client: mcp.Client, task_id: str) -> dict[str, Any]:
    call = call_of(await host.rt.calls.get(task_id))
    with host.rt.app_calls.watch(call) as watch:
        while not is_over((await host.rt.calls.get(task_id)).status):
            await watch.next(1.0)
    return await send(client, "tasks/get", taskId=task_id)


def too_long() -> tw.App:
    """Return an app whose tool `long` promises an object, which is too long to be one."""
    registry = tw.Registry()
    output = {"type": "object", "required": ["text"]}
    registry.tool("long", {"description": "Is long.", "type": "object", "properties": {"_output": output}})
    registry.handler("long", lambda: {"text": "x" * 300_000})
    return tw.App(registry=registry)


async def test_a_task_whose_result_is_too_long_for_its_schema_has_no_result_of_it() -> None:
    async with hosting(too_long()) as host, host.wire("legacy") as wire:
        task = (await wire.call("long", task={}))["result"]["task"]
        made = (await wire.request("tasks/result", {"taskId": task["taskId"]}))["result"]
        assert made["isError"] is True
        async with host.client("2026-07-28", **knowing()) as client:
            over = await send(client, "tasks/get", taskId=task["taskId"])
        assert over["result"]["isError"] is True


async def test_a_pending_call_is_a_task_whose_result_comes_later() -> None:
    async with hosting(tw.App(tools=[outside])) as host, host.client("2026-07-28", **knowing()) as client:
        task = await task_of(client, "ask_outside", {})
        assert (task["resultType"], task["status"], task["ttlMs"]) == ("task", "working", None)
        call = await host.rt.calls.get(task["taskId"])
        await host.rt.calls.submit(call.run_id, call.id, {"answer": 42})
        over = await until_over(host, client, call.id)
        assert over["status"] == "completed"
        assert over["result"]["structuredContent"] == {"answer": 42}


async def test_a_quick_call_is_no_task() -> None:
    async with hosting(tw.App(tools=[add])) as host, host.client("2026-07-28", **knowing()) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert isinstance(result, CallToolResult)


async def test_a_slow_call_becomes_a_task_and_can_be_cancelled() -> None:
    wait, _ = hanging("wait")

    async with hosting(tw.App(tools=[wait])) as host, host.client("2026-07-28", **knowing()) as client:
        task = await task_of(client, "wait", {})
        acknowledged = await send(client, "tasks/cancel", taskId=task["taskId"])
        assert not {"taskId", "status"} & set(acknowledged)
        assert (await until_over(host, client, task["taskId"]))["status"] == "cancelled"
        await send(client, "tasks/cancel", taskId=task["taskId"])


async def test_a_task_whose_host_cannot_ask_its_user_goes_on_without_an_answer() -> None:
    began = asyncio.Event()

    @tw.tool(description="Ask.")
    async def asks(state: tw.ThreadState) -> str:
        await began.wait()
        answer = await state.elicit("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return f"{answer.action}: {answer.reason}"

    async with hosting(tw.App(tools=[asks])) as host, host.client("2026-07-28", **knowing()) as client:
        task = await task_of(client, "asks", {})
        assert task["status"] == "working"
        began.set()
        call = call_of(await host.rt.calls.get(task["taskId"]))
        with host.rt.app_calls.watch(call) as watch:
            while not await host.rt.app_calls.nested_calls(call, 10):
                await watch.next(1.0)
            await send(client, "tasks/get", taskId=call.id)
            over = await asyncio.wait_for(until_over(host, client, call.id), 20)
        assert over["result"]["content"] == [
            {"type": "text", "text": "cancel: The host does not support elicitation."}
        ]


async def test_the_failure_of_a_tool_is_a_result_and_an_expired_call_a_failed_task() -> None:
    brief = tw.Tool(name="brief", description="Ask.", kind="external", is_async=True, expires_in=0.05)
    async with (
        hosting(tw.App(tools=[outside, brief])) as host,
        host.client("2026-07-28", **knowing()) as client,
    ):
        task = await task_of(client, "ask_outside", {})
        call = await host.rt.calls.get(task["taskId"])
        await host.rt.calls.submit(call.run_id, call.id, tw.ToolResult.fail("no luck"))
        over = await until_over(host, client, call.id)
        assert (over["status"], over["result"]["isError"]) == ("completed", True)
        expired = await until_over(host, client, (await task_of(client, "brief", {}))["taskId"])
        assert (expired["status"], expired["error"]["message"]) == ("failed", "Tool call expired")


async def test_a_host_that_knows_no_tasks_waits_up_to_the_timeout() -> None:
    async with hosting(tw.App(tools=[waited])) as host, host.client("2026-07-28") as client:
        result = await client.call_tool("ask_and_wait", {})
        assert result.is_error
        [block] = result.content
        assert block.type == "text"
        assert "Tool timed out after 500ms" in block.text
        with pytest.raises(MCPError) as refused:
            await send(client, "tasks/get", taskId="call_x")
        assert refused.value.code == -32021


async def test_what_is_submitted_in_time_is_the_result_of_the_waiting_host() -> None:
    async with hosting(tw.App(tools=[outside])) as host, host.client("2026-07-28") as client:
        calling = asyncio.create_task(client.call_tool("ask_outside", {}))
        async with host.rt.offers.following(["ask_outside"]) as offers:
            offer = await anext(offers.events)
        call = await host.rt.calls.get(str(offer.payload["toolCallId"]))
        await host.rt.calls.submit(call.run_id, call.id, "Yes.")
        [block] = (await calling).content
        assert block.type == "text"
        assert block.text == "Yes."


async def test_tasks_of_2025_11_25_are_asked_for_listed_and_awaited() -> None:
    async with hosting(tw.App(tools=[outside, add])) as host, host.client("legacy") as client:
        capabilities = client.session.server_capabilities
        assert capabilities is not None
        assert capabilities.tasks is not None
        [listed, _] = (await client.list_tools()).tools
        assert listed.execution == mcp_types.ToolExecution(task_support="optional")
        async with host.wire("legacy") as wire:
            made = await wire.call("ask_outside", task={"ttl": 1000})
        task = made["result"]["task"]
        assert task["status"] == "working"
        waiting = asyncio.create_task(send(client, "tasks/result", taskId=task["taskId"]))
        call = await host.rt.calls.get(task["taskId"])
        await host.rt.calls.submit(call.run_id, call.id, "late")
        result = await waiting
        assert result["content"] == [{"type": "text", "text": "late"}]
        assert result["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": call.id}}
        assert (await send(client, "tasks/get", taskId=call.id))["status"] == "completed"
        async with host.wire("legacy") as wire:
            tasks = (await wire.request("tasks/list"))["result"]["tasks"]
        assert [each["taskId"] for each in tasks] == [call.id]
        with pytest.raises(MCPError):
            await send(client, "tasks/cancel", taskId=call.id)


async def test_a_task_is_there_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/journal.db")
    app = tw.App(tools=[outside])
    async with (
        app.runtime(settings) as rt,
        hosting(app, rt) as host,
        host.client("2026-07-28", **knowing()) as client,
    ):
        task = await task_of(client, "ask_outside", {})
    async with app.runtime(settings) as rt, hosting(app, rt) as host:
        call = await rt.calls.get(task["taskId"])
        await rt.calls.submit(call.run_id, call.id, "after")
        async with host.client("2026-07-28", **knowing()) as client:
            over = await until_over(host, client, call.id)
    assert over["result"]["content"] == [{"type": "text", "text": "after"}]


@pytest.mark.parametrize("task_id", ["call_unknown", "", "x" * 900])
async def test_an_unknown_task_is_an_error_of_the_protocol(task_id: str) -> None:
    async with hosting(tw.App(tools=[outside])) as host, host.client("2026-07-28", **knowing()) as client:
        for method in ("tasks/get", "tasks/cancel"):
            with pytest.raises(MCPError) as refused:
                await send(client, method, taskId=task_id)
            assert refused.value.code in (-32602, -32020)
