"""Who executes a call, and when its result is available (S3 "Decision Flow", D8)."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.executors.rig import Received, answer, bench, serving
from tests.runtime.rig import Rig, assert_valid, running
from toolwright.core.results import Outcome
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Run
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
HTTP = {"url": "https://api.example.com/"}


def tool(kind: str, **fields: Any) -> tw.Tool:  # of a configuration
    return tw.Tool.from_config(
        {
            "name": "ask",
            "description": "Ask.",
            "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
            "executionType": kind,
            **fields,
        }
    )


class Asked:
    """An executor that records its callers."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def __call__(self, prepared: PreparedCall, state: tw.ThreadState) -> Outcome:
        self.calls.append(state.call_id)
        return tw.ToolResult.ok({"over": "http"})


async def called(rig: Rig, args: dict[str, Any] | None = None) -> tuple[Run, Call, str]:
    """Return the run of one call, the call, and its result as the model read it."""
    run = await rig.run()
    messages = await rig.transcript(run.thread_id)
    assert_valid(messages)
    [call] = await rig.rt.calls.list(status=None)
    [read] = [message.content for message in messages if message.role == "tool"]
    return run, call, read


def model() -> ScriptedModel:
    return ScriptedModel([{"calls": [{"name": "ask", "args": {"city": "Tokyo"}}]}, {"text": "Well."}])


@requirement("S3-3-4", "S3-4.3-1")
@pytest.mark.parametrize("fields", [{}, {"isAsync": True, "execution": HTTP, "timeout": 5, "visible": True}])
async def test_an_internal_tool_answers_at_once_with_its_arguments_and_never_over_http(
    fields: dict[str, Any],
) -> None:
    asked = Asked()
    async with running(model(), [tool("internal", **fields)], executors={"gateway": asked}) as rig:
        run, call, read = await called(rig)
        assert read == '{"success":true,"args":{"city":"Tokyo"}}'
        assert (call.status, call.kind, asked.calls) == ("done", "internal", [])
        assert run.output == "Well."
        assert rig.store.names == ["CreateThread", "PostMessage", "Claim", "Answer", "Answer"]


@requirement("S3-3-1", "S3-4.2-1", "S3-4.3-2")
@pytest.mark.parametrize("kind", ["gateway", "external", "space"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_has_a_url_is_called_inline_also_when_it_is_async(kind: str, is_async: bool) -> None:
    asked = Asked()
    made = tool(kind, isAsync=is_async, execution=HTTP)
    async with running(model(), [made], executors={"gateway": asked}) as rig:
        _, call, read = await called(rig)
        assert read == '{"over":"http"}'
        assert (call.status, call.kind, asked.calls) == ("done", kind, [call.id])
        assert (call.started_at is not None, call.attempts, call.visible) == (True, 1, True)


@requirement("S3-4-1", "S3-4.1-1", "S3-4.3-3", "S3-7.3-1")
@pytest.mark.parametrize("kind", ["external", "space"])
async def test_an_async_call_is_pending_at_once_and_its_result_comes_by_the_inbox(kind: str) -> None:
    async with running(model(), [tool(kind, isAsync=True, timeout=5, expiresIn=60_000)]) as rig:
        run, call, read = await called(rig)
        assert read == f'{{"status":"pending","pendingToolCallId":"{call.id}"}}'
        assert (call.status, call.deadline) == ("pending", None)
        assert call.started_at is not None
        assert call.expires_at == call.started_at + timedelta(seconds=60)
        assert run.status == "completed"
        assert await rig.rt.calls.submit(run.id, call.id, {"confirmed": True}) == "inbox"


@requirement("S3-4-1", "S3-4.2-4", "S3-4.3-4")
@pytest.mark.parametrize("kind", ["external", "space"])
async def test_any_other_call_waits_for_its_time_and_then_reads_an_error(kind: str) -> None:
    async with running(model(), [tool(kind, timeout=50, expiresIn=60_000)], inline_wait=0.0) as rig:
        _, call, read = await called(rig)
        assert json.loads(read)["error"] == "Tool timed out after 50ms"
        assert call.status == "pending"
        assert call.expires_at is not None


@requirement("S3-2.1-9", "S3-4.2-5")
@pytest.mark.parametrize("kind", ["gateway", "external", "space"])
async def test_the_timeout_holds_for_every_call_over_http(kind: str) -> None:
    async def stuck(prepared: PreparedCall, state: tw.ThreadState) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    made = tool(kind, timeout=50, execution=HTTP)
    async with running(model(), [made], executors={"gateway": stuck}) as rig:
        _, call, read = await called(rig)
        assert json.loads(read)["error"] == "Tool timed out after 50ms"
        assert call.status == "error", "after an inline timeout nothing arrives later"


async def test_a_call_knows_whether_it_is_visible_and_may_run_again() -> None:
    for fields, expected in (
        ({}, (True, False)),
        ({"visible": False, "readOnly": True}, (False, True)),
        ({"idempotent": True}, (True, True)),
    ):
        async with running(model(), [tool("external", isAsync=True, **fields)]) as rig:
            _, call, _ = await called(rig)
            assert (call.visible, call.repeatable) == expected


async def test_a_call_over_http_takes_its_variables_from_the_thread_and_leaves_no_secret() -> None:
    async def echo(got: Received, writer: asyncio.StreamWriter) -> None:
        body = json.dumps({"key": got.headers["X-Key"], "call": got.headers["Idempotency-Key"]})
        writer.write(answer("400 Bad Request", body, Content_Type="application/json"))
        await writer.drain()

    async with bench() as on:
        on.server.replies["/"] = echo
        made = tool(
            "gateway",
            execution={"url": f"http://api.test:{on.server.port}/", "headers": {"X-Key": "${env.API_KEY}"}},
        )
        options = {"env": {"API_KEY": "sk-very-secret"}}
        async with running(model(), [made], executors={"gateway": on.executor}, options=options) as rig:
            _, call, read = await called(rig)
            assert on.server.received[0].headers["X-Key"] == "sk-very-secret"
            assert json.loads(read) == {
                "error": f'HTTP 400 Bad Request: {{"key": "[redacted:API_KEY]", "call": "{call.id}"}}',
                "error_code": "http_error",
                "status": 400,
            }


@requirement("S3-4.2-1")
async def test_an_app_carries_http_tools_out_by_itself() -> None:
    async with serving() as server:
        made = tool("gateway", execution={"url": f"http://127.0.0.1:{server.port}/{{city}}", "method": "GET"})
        app = tw.App(agents=[tw.Agent("helper", tw.Prompt("helper", "Help.", model=model(), tools=[made]))])
        async with tw.testing.runtime(app) as rt:
            thread = await rt.threads.create("helper")
            await rt.runs.wait((await rt.threads.send(thread.id, "Go")).id, 10)
            read = [m.content for m in await rt.threads.messages(thread.id) if m.role == "tool"]
            assert read == ['{"path":"/Tokyo"}']
        async with tw.testing.by_hand(app) as (rt, motor):
            thread = await rt.threads.create("helper")
            sent = await rt.threads.send(thread.id, "Go")
            await motor.run_until_idle()
            assert (await rt.runs.get(sent.id)).status == "completed"
        assert [got.target for got in server.received] == ["/Tokyo", "/Tokyo"]
