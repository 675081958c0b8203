"""Runs, calls and their results over HTTP."""

from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import read, serving
from tests.behaviour.marks import requirement
from tests.client.rig import client_of
from tests.kit import call
from toolwright.core.errors import NotFailed
from toolwright.core.results import Outcome, Pending
from toolwright.core.tools.pipeline import PreparedCall
from toolwright.testing import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio


async def test_a_run_is_shown_with_its_steps_and_what_it_waits_for() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        run = (await api.get(f"/api/runs/{run_id}"))["run"]
        assert (run["status"], run["waiting"]["reason"]) == ("waiting", "calls")
        assert run["waiting"]["callIds"] == [call_id]
        await api.post(f"/api/runs/{run_id}/tool-results", {"callId": call_id, "result": {"an_answer": 42}})
        await api.rig.rt.runs.wait(run_id, 10)
        run = (await api.get(f"/api/runs/{run_id}"))["run"]
        assert (run["status"], run["stopReason"], run["output"]) == ("completed", "end_turn", "Thanks.")
        assert "waiting" not in run
        assert [step["stepNumber"] for step in run["steps"]] == [1, 2]
        entries = [entry for step in run["steps"] for entry in step["messages"]]
        assert [entry["messageType"] for entry in entries] == [
            "user_message",
            "tool_call_message",
            "tool_return_message",
            "assistant_message",
        ]
        assert entries[2]["content"] == '{"an_answer":42}'
        assert entries[1]["toolCallId"] == entries[2]["toolCallId"] == call_id


async def test_runs_are_listed_newest_first_and_filtered() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        (first, old), (_, new) = await api.finished(), await api.finished()

        async def ids(**params: Any) -> list[str]:
            return [run["id"] for run in (await api.get("/api/runs", params=params))["runs"]]

        assert await ids() == [new, old]
        assert await ids(threadId=first) == [old]
        assert await ids(limit=1, offset=1) == [old]
        assert await ids(agentId="tester") == [new, old]
        assert await ids(agentId=api.rig.rt.agents.declared[0].id, status="completed") == [new, old]
        assert await ids(status="failed") == await ids(agentId="nobody") == await ids(threadId="x") == []
        faulty = read(await api.client.get("/api/runs", params={"status": "done"}), 400)
        assert faulty["details"][0]["path"] == "status"


async def test_a_runs_events_are_listed_in_pages() -> None:
    async with serving(ScriptedModel([{"text": "Hi."}])) as api:
        _, run_id = await api.finished()
        path = f"/api/runs/{run_id}/events"
        events = (await api.get(path))["events"]
        assert events[-1]["type"] == "run.completed"
        assert {event["runId"] for event in events} == {run_id}
        entity_id = api.rig.rt.agents.declared[0].entity_id
        assert {event["agentEntityId"] for event in events} == {entity_id}
        assert (await api.get(path, params={"limit": 2, "offset": 1}))["events"] == events[1:3]
        assert (await api.get(path, params={"after": events[1]["id"]}))["events"] == events[2:]
        assert (await api.get(path, params={"after": "9" * 40}))["events"] == []


async def test_a_run_is_cancelled_once() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        assert (await api.post(f"/api/runs/{run_id}/cancel"))["run"]["id"] == run_id
        assert (await api.rig.rt.runs.wait(run_id, 10)).status == "cancelled"
        error = (await api.post(f"/api/runs/{run_id}/cancel", status=409))["error"]
        assert error == f"The run {run_id!r} has already finished."
        [call] = (await api.get("/api/calls"))["calls"]
        assert (call["callId"], call["status"]) == (call_id, "pending")


async def test_unknown_runs_are_not_there() -> None:
    async with serving() as api:
        for path in ("", "/events", "/stream"):
            response = await api.client.get(f"/api/runs/run_x{path}")
            assert read(response, 404) == {"error": "There is no run 'run_x'."}
        await api.post("/api/runs/run_x/cancel", status=404)


async def test_open_calls_are_listed_with_what_is_asked() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        [call] = (await api.get("/api/calls"))["calls"]
        assert call["callId"] == call_id
        assert call["args"] == {"user_name": "Ada"}
        assert (call["toolName"], call["status"], call["runId"]) == ("ask_outside", "waiting", run_id)
        assert call["agentEntityId"] == api.rig.rt.agents.declared[0].entity_id
        assert "result" not in call
        assert (await api.get("/api/calls", params={"status": "pending"}))["calls"] == []
        assert (await api.get("/api/calls?status=pending,waiting"))["calls"] == [call]
        assert (await api.get("/api/calls?status=pending&status=waiting"))["calls"] == [call]
        read(await api.client.get("/api/calls?status=pending,open"), 400)
        assert (await api.get("/api/calls", params={"runId": "other"}))["calls"] == []
        assert (await api.get("/api/calls", params={"offset": 1}))["calls"] == []
        await api.post(f"/api/runs/{run_id}/tool-results", {"callId": call_id, "result": [1]})
        assert (await api.get("/api/calls"))["calls"] == []
        [done] = (await api.get("/api/calls", params={"status": "resolved"}))["calls"]
        assert done["result"] == [1]
        assert done["resolvedAt"]


@requirement("S3-7.5-1", "S3-7.5-3")
@pytest.mark.parametrize("result", [None, False, 0, "", [], {}, 1.5, "text", {"status": "error"}])
async def test_any_json_value_is_a_result_and_is_taken_once(result: object) -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        path, body = f"/api/runs/{run_id}/tool-results", {"callId": call_id, "result": result}
        taken = await api.post(path, body)
        assert taken == {"success": True, "agentEntityId": api.rig.rt.agents.declared[0].entity_id}
        assert await api.post(path, body, 409) == {"error": "Tool call already resolved"}
        assert (await api.rig.rt.runs.wait(run_id, 10)).status == "completed"


async def test_a_failure_is_an_error_to_the_model() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        await api.post(f"/api/runs/{run_id}/tool-results", {"callId": call_id, "error": "No answer."})
        await api.rig.rt.runs.wait(run_id, 10)
        thread_id = (await api.get(f"/api/runs/{run_id}"))["run"]["threadId"]
        messages = (await api.get(f"/api/threads/{thread_id}/messages"))["messages"]
        assert messages[2]["content"] == '{"error":"No answer."}'
        assert messages[2]["toolStatus"] == "error"


@requirement("S3-7.4-1", "S3-7.5-2")
async def test_an_invalid_submission_changes_nothing() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        path = f"/api/runs/{run_id}/tool-results"
        cases: list[tuple[object, int, str]] = [
            ({}, 400, "callId is required"),
            ({"result": 1}, 400, "callId is required"),
            ({"callId": "", "result": 1}, 400, "callId is required"),
            ({"callId": None, "result": 1, "x": 1}, 400, "callId is required"),
            ({"callId": call_id}, 400, "result is required"),
            ({"callId": 5, "result": 1}, 400, "callId must be text"),
            ({"callId": call_id, "error": None}, 400, "Send either a result, or an error as text."),
            ({"callId": call_id, "error": 5}, 400, "error must be text"),
            (
                {"callId": call_id, "result": 1, "error": "x"},
                400,
                "Send either a result, or an error as text.",
            ),
            ({"callId": call_id, "result": 1, "extra": 2}, 400, "extra is not a known field"),
            ({"callId": "call_x", "result": 1}, 404, "Pending tool call not found"),
        ]
        for body, status, error in cases:
            assert (await api.post(path, body, status))["error"] == error
        other = await api.run(await api.thread())
        body = {"callId": call_id, "result": 1}
        error = (await api.post(f"/api/runs/{other}/tool-results", body, 403))["error"]
        assert error == "This tool call belongs to another run."
        await api.post("/api/runs/run_x/tool-results", body, 403)
        await api.post(path, body)


async def test_a_call_that_is_not_open_is_no_pending_call() -> None:
    @tw.tool(description="Say hello.")
    async def hello() -> str:
        return "hello"

    model = ScriptedModel([call("hello"), {"text": "Done."}])
    async with serving(model, [hello]) as api:
        _, run_id = await api.finished()
        [made] = (await api.get("/api/calls", params={"status": "done"}))["calls"]
        body = {"callId": made["callId"], "result": 1}
        error = await api.post(f"/api/runs/{run_id}/tool-results", body, 404)
        assert error == {"error": "Pending tool call not found"}


async def test_a_call_that_expired_takes_no_result() -> None:
    def briefly(prepared: PreparedCall) -> Outcome:
        return Pending(wait=30.0, expires_in=0.05)

    async with serving(inline_executors={"external": briefly}) as api:
        run_id = await api.run(await api.thread())
        await api.until(run_id, "run.completed")
        [call] = (await api.get("/api/calls", params={"runId": run_id, "status": "expired"}))["calls"]
        assert (call["result"], call["expiresAt"] is None) == ({"error": "Tool call expired"}, False)
        body = {"callId": call["callId"], "result": 1}
        error = await api.post(f"/api/runs/{run_id}/tool-results", body, 410)
        assert error == {"error": "Tool call expired"}
        assert await api.post(f"/api/calls/{call['callId']}/cancel", None, 409) == error
        claim = {"worker": "w", "leaseMs": 1_000}
        assert await api.post(f"/api/calls/{call['callId']}/claim", claim, 410) == error


async def test_a_call_that_its_service_cancels_takes_no_result() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        call = (await api.post(f"/api/calls/{call_id}/cancel"))["call"]
        assert (call["callId"], call["status"]) == (call_id, "cancelled")
        assert call["result"] == {"error": "Tool call cancelled"}
        await api.rig.rt.runs.wait(run_id, 10)
        body = {"callId": call_id, "result": 1}
        error = await api.post(f"/api/runs/{run_id}/tool-results", body, 409)
        assert error == {"error": "Tool call cancelled"}
        assert await api.post(f"/api/calls/{call_id}/cancel", None, 409) == error
        unknown = await api.post("/api/calls/call_none/cancel", None, 404)
        assert unknown == {"error": "Pending tool call not found"}


async def test_a_call_is_claimed_by_one_worker_who_may_renew() -> None:
    async with serving() as api:
        run_id, call_id = await api.waiting()
        claiming = f"/api/calls/{call_id}/claim"
        mine = {"worker": "ann", "leaseMs": 1_000}
        for _ in range(2):
            call = (await api.post(claiming, mine))["call"]
            assert (call["callId"], call["status"]) == (call_id, "waiting")
        error = await api.post(claiming, {"worker": "bob", "leaseMs": 3_600_000}, 409)
        assert error == {"error": "Tool call already claimed"}
        await api.post("/api/calls/call_none/claim", mine, 404)
        await api.post(f"/api/runs/{run_id}/tool-results", {"callId": call_id, "result": 1})
        error = await api.post(claiming, mine, 409)
        assert error == {"error": "Tool call already resolved"}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"worker": "", "leaseMs": 1_000}, "worker"),
        ({"worker": " ", "leaseMs": 1_000}, "worker"),
        ({"worker": "x" * 201, "leaseMs": 1_000}, "worker"),
        ({"worker": "w", "leaseMs": 999}, "leaseMs"),
        ({"worker": "w", "leaseMs": 3_600_001}, "leaseMs"),
        ({"worker": "w", "leaseMs": 1.5}, "leaseMs"),
        ({"worker": "w"}, "leaseMs"),
    ],
)
async def test_an_invalid_claim_is_refused(body: dict[str, Any], path: str) -> None:
    async with serving() as api:
        _, call_id = await api.waiting()
        error = await api.post(f"/api/calls/{call_id}/claim", body, 400)
        assert [detail["path"] for detail in error["details"]] == [path]


async def test_a_failed_run_is_retried_over_http_by_whose_thread_it_is() -> None:
    asked: list[int] = []

    def answer(_: object) -> dict[str, Any]:
        asked.append(1)
        return {"fail": "refused", "message": "No credit."} if len(asked) == 1 else {"text": "Paid."}

    async with serving(FunctionModel(answer)) as api, client_of(api.port) as client:
        thread_id, run_id = await api.finished()
        run = (await api.get(f"/api/runs/{run_id}"))["run"]
        assert (run["status"], run["error_code"]) == ("failed", "model_refused")
        assert (await client.runs.retry(run_id)).status in ("queued", "running", "completed")
        assert (await client.runs.wait(run_id, 10)).output == "Paid."
        values = [event async for event in client.runs.stream(run_id)]
        assert [each for each in values if isinstance(each, tw.RunDone)] == values[-1:]
        run = (await api.get(f"/api/runs/{run_id}"))["run"]
        assert (run["status"], run["error"], run["threadId"]) == ("completed", None, thread_id)
        assert "error_code" not in run
        error = (await api.post(f"/api/runs/{run_id}/retry", status=409))["error"]
        assert error == f"The run {run_id!r} is completed: only a failed run can be retried."
        with pytest.raises(NotFailed, match="only a failed run can be retried"):
            await client.runs.retry(run_id)
        error = (await api.post("/api/runs/nope/retry", status=404))["error"]
        assert error == "There is no run 'nope'."
