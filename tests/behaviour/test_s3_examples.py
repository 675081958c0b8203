"""S3: its five examples and its two flows, over real HTTP, with the configurations and texts of the document."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.house import ENTER, HUSAM, at_work, by_hand, call, calls, tool
from tests.behaviour.marks import requirement
from tests.executors.rig import as_json, serving

pytestmark = pytest.mark.anyio
WORKER = Path(__file__).parents[2] / "examples" / "worker.py"

FETCH_WEATHER: dict[str, Any] = {
    "name": "fetchWeather",
    "executionType": "gateway",
    "visible": True,
    "execution": {"url": "https://api.weather.com/current", "method": "GET"},
}
FETCH_EXTERNAL_DATA: dict[str, Any] = {
    "name": "fetchExternalData",
    "executionType": "external",
    "visible": False,
    "isAsync": False,
    "timeout": 10000,
}
CONFIRM_ACTION: dict[str, Any] = {
    "name": "confirmAction",
    "executionType": "space",
    "visible": True,
    "isAsync": True,
}
BOOK_HOTEL: dict[str, Any] = {"name": "bookHotel", "executionType": "internal"}  # not in the document
DISPLAY_CHART: dict[str, Any] = {"name": "displayChart", "executionType": "internal", "visible": True}

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
TIMED_OUT = {"error": "Tool timed out after 10000ms", "error_code": "timeout"}


@requirement("S3-4.5-1", "S3-5.1-1")
async def test_the_weather_is_fetched_inline_and_shown() -> None:
    printed = tool(FETCH_WEATHER).execution
    assert printed is not None and (printed.url, printed.method) == ("https://api.weather.com/current", "GET")
    async with serving() as service:
        service.replies["/current"] = as_json({"celsius": 21})
        here = {"url": f"http://127.0.0.1:{service.port}/current", "method": "GET"}
        turns = [calls(ENTER, call("fetchWeather", city="Tokyo")), {"text": "21 degrees."}]
        async with by_hand(turns, [tool(FETCH_WEATHER, execution=here)]) as (house, motor):
            await house.says("How is it in Tokyo?")
            await motor.run_until_idle()
            assert (await house.mind())[-2:] == ['{"celsius":21}', "21 degrees."]
            told = await house.events("agent.inactive")
            assert [each["type"] for each in told[-5:]] == [
                "tool.started",
                "space.message",
                "tool.done",
                "message_updated",
                "agent.inactive",
            ]
            shown = await house.shown()
            assert (shown["toolName"], shown["status"]) == ("fetchWeather", "complete")
            assert (shown["args"], shown["result"]) == ({"city": "Tokyo"}, {"celsius": 21})
        [got] = service.received
        assert (got.method, got.target, got.body) == ("GET", "/current?city=Tokyo", b"")


@asynccontextmanager
async def worker(url: str) -> AsyncGenerator[None]:
    """Start the worker of `examples/` in a separate process. Returns when it reads the offered calls."""
    environ = {**os.environ, "TOOLWRIGHT_URL": url, "TOOLWRIGHT_SECRET_KEY": "sk"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), env=environ, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"/api/tools/stream" not in (line := await process.stderr.readline()):
                assert line, "the worker has ended"
        yield
    finally:
        process.terminate()
        await process.communicate()


@requirement("S3-4.5-2", "S3-4.2-3", "S3-5-3", "S3-7.2-1", "S3-7.3-4", "S3-7.5-5", "S3-10-4")
async def test_external_data_comes_inline_from_a_worker_of_another_process() -> None:
    turns = [
        calls(call("fetch_data", query="active projects")),
        {"text": "Found what there is."},
    ]
    async with (
        at_work(turns, [tool({**FETCH_EXTERNAL_DATA, "name": "fetch_data"}, QUERY)]) as house,
        worker(house.url),
    ):
        [run_id] = await house.says("Look up active projects")
        assert (await house.rt.runs.wait(run_id, 30)).status == "completed"
        asked, _, result, last = await house.mind()
        assert asked.startswith('INBOX: [Husam: "Look up active projects"]')
        assert json.loads(result) == {"source": "pm-api", "results": ["Something about active projects"]}
        assert last == "Found what there is."
        [made] = await house.calls()
        assert (made["status"], made["visible"], made["spaceId"]) == ("resolved", False, None)
        assert await house.inbox("tool_result") == []
        assert [message["content"] for message in await house.said()] == ["Look up active projects"]


@requirement("S3-4.2-2", "S3-7.2-2", "S3-7.3-3", "S3-7.3-4", "S3-7.4-5", "S3-7.5-5")
async def test_wait_for_result_submitted_in_time() -> None:
    found = {"source": "pm-api", "results": ["Apollo", "Gemini", "Mercury"]}
    turns = [calls(call("fetchExternalData", query="active projects")), {"text": "Found 3 active projects."}]
    async with by_hand(turns, [tool(FETCH_EXTERNAL_DATA, QUERY)]) as (house, motor):
        [run_id] = await house.says("Look up active projects")
        await motor.run_until_idle()
        [made] = await house.calls()
        assert (made["status"], made["toolName"]) == ("waiting", "fetchExternalData")
        run = (await house.get(f"/api/runs/{run_id}"))["run"]
        assert (run["status"], run["waiting"]["reason"]) == ("waiting", "calls")
        await house.submit(made, found)
        await motor.run_until_idle()
        assert json.loads((await house.mind())[-2]) == found
        assert (await house.mind())[-1] == "Found 3 active projects."
        [made] = await house.calls()
        assert (made["status"], made["result"]) == ("resolved", found)
        assert await house.inbox("tool_result") == []
        assert (await house.get(f"/api/runs/{run_id}"))["run"]["status"] == "completed"


@requirement("S3-4.5-3", "S3-4.2-4", "S3-7.2-3", "S3-7.2-4", "S3-7.2-5", "S3-7.3-5", "S3-7.4-5")
async def test_wait_for_result_submitted_too_late() -> None:
    late: dict[str, Any] = {"source": "pm-api", "results": []}
    turns = [
        {"when": "[Tool Result: fetchExternalData]", "text": "There are none after all."},
        {"when": "Tool timed out", **calls(ENTER, call("send_message", text="It takes long."))},
        {"when": '{"messageId"', "text": "I told Husam."},
        calls(call("fetchExternalData", query="active projects")),
    ]
    async with by_hand(turns, [tool(FETCH_EXTERNAL_DATA, QUERY)]) as (house, motor):
        await house.says("Look up active projects")
        await motor.run_until_idle()
        [made] = await house.calls("waiting")
        await motor.run_timers()
        assert (await house.calls("waiting"), len(await house.calls("pending"))) == ([], 1)
        assert json.dumps(TIMED_OUT, separators=(",", ":")) in await house.mind()
        assert (await house.said())[-1]["content"] == "It takes long."
        await house.submit(made, late)
        [event] = await house.inbox("tool_result")
        assert event["eventId"] == f"tr:{made['callId']}"
        await motor.run_until_idle()
        said = f"INBOX: [Tool Result: fetchExternalData] (callId: {made['callId']}) "
        assert (await house.mind())[-2:] == [
            said + json.dumps(late, separators=(",", ":")),
            "There are none after all.",
        ]


@requirement("S3-3-3", "S3-4.5-4", "S3-4.1-1", "S3-4.1-2", "S3-4.1-3", "S3-7.1-1", "S3-7.1-2", "S3-7.1-3")
@requirement("S3-7.1-4", "S3-7.3-1", "S3-7.3-2", "S3-7.5-4", "S3-7.5-6", "S3-8.1-5")
async def test_result_via_inbox() -> None:
    turns = [
        {
            "when": "[Tool Result: confirmAction]",
            **calls(call("bookHotel", city="Tokyo"), text="Husam confirmed! Booking now..."),
        },
        {"when": '"success":true', "text": "It is booked."},
        calls(ENTER),
        calls(call("confirmAction", question="Confirm booking?")),
        {"text": "Asked Husam to confirm. Moving on to other tasks."},
    ]
    async with by_hand(turns, [tool(CONFIRM_ACTION), tool(BOOK_HOTEL)]) as (house, motor):
        cycle_15 = await house.says("Book a hotel in Tokyo")
        await motor.run_until_idle()
        [made] = await house.calls()
        assert (made["status"], made["args"]) == ("pending", {"question": "Confirm booking?"})
        assert (made["runId"], made["spaceId"]) == (cycle_15[0], "tea")
        before = await house.mind()
        assert before[0].startswith('INBOX: [Husam: "Book a hotel in Tokyo"]')
        assert json.loads(before[-2]) == {"status": "pending", "pendingToolCallId": made["callId"]}
        assert before[-1] == "Asked Husam to confirm. Moving on to other tasks."
        assert (await house.get(f"/api/runs/{cycle_15[0]}"))["run"]["status"] == "completed"
        assert (await house.shown())["status"] == "requires_action"

        await house.submit(made, {"confirmed": True}, HUSAM)
        shown = await house.shown()
        assert (shown["status"], shown["result"]) == ("complete", {"confirmed": True})
        assert len(await house.inbox("tool_result")) == 1
        await motor.run_until_idle()
        after = await house.mind()
        assert after[: len(before)] == before, "consciousness is kept from cycle to cycle"
        assert after[len(before) :] == [
            f'INBOX: [Tool Result: confirmAction] (callId: {made["callId"]}) {{"confirmed":true}}',
            "Husam confirmed! Booking now...",
            '{"success":true,"args":{"city":"Tokyo"}}',
            "It is booked.",
        ]


@requirement("S3-4.5-4", "S3-5-2", "S3-7.4-1", "S3-7.4-2", "S3-7.4-3", "S3-7.4-4", "S3-7.4-6")
async def test_a_confirmation_is_seen_in_a_browser_and_answered_from_what_is_seen() -> None:
    turns = [
        {"when": "[Tool Result: confirmAction]", "text": "As you like."},
        calls(ENTER, call("confirmAction", question="Confirm booking?")),
        {"text": "Asked."},
    ]
    async with at_work(turns, [tool(CONFIRM_ACTION)]) as house:
        await house.says("Book a hotel in Tokyo")
        told = await house.events("agent.inactive")
        [seen] = [each["data"]["message"]["metadata"] for each in told if "metadata" in _message(each)
                  and _message(each)["metadata"].get("type") == "tool_call"]  # fmt: skip
        assert (seen["toolName"], seen["status"]) == ("confirmAction", "requires_action")
        made = {
            "callId": seen["toolCallId"],
            "runId": seen["runId"],
            "agentEntityId": told[-1]["agentEntityId"],
        }
        [recorded] = await house.calls()
        assert {name: recorded[name] for name in made} == made
        assert (recorded["toolName"], recorded["args"]) == ("confirmAction", seen["args"])
        assert recorded.get("result") is None
        await house.submit(made, {"confirmed": False}, HUSAM)
        done = (await house.events("tool.done"))[-1]
        assert (done["data"]["streamId"], done["data"]["result"]) == (made["callId"], {"confirmed": False})
        [recorded] = await house.calls()
        assert (recorded["status"], recorded["result"]) == ("resolved", {"confirmed": False})


@requirement("S3-4.5-5", "S3-1-3", "S3-5-1", "S3-8-1")
async def test_a_chart_is_returned_at_once_and_shown() -> None:
    bars = {"type": "bar", "values": [1, 2, 3]}
    turns = [
        calls(ENTER, call("displayChart", **bars), call("send_message", text="Look!")),
        {"text": "Shown."},
    ]
    async with by_hand(turns, [tool(DISPLAY_CHART)]) as (house, motor):
        await house.says("Show me")
        await motor.run_until_idle()
        assert json.loads((await house.mind())[3]) == {"success": True, "args": bars}
        asked, chart, look = await house.said()
        assert [each["seq"] for each in (asked, chart, look)] == [1, 2, 3]
        assert (chart["role"], chart["entityId"]) == (look["role"], look["entityId"])
        assert chart["metadata"]["status"] == "complete"
        assert chart["metadata"]["args"] == bars
        told = [
            _message(each)["id"]
            for each in await house.events("agent.inactive")
            if each["type"] == "space.message"
        ]
        assert told == [asked["id"], chart["id"], look["id"]]


def _message(event: dict[str, Any]) -> dict[str, Any]:
    return dict(event["data"].get("message", {}))
