"""Stack traces of exceptions in tools: services can read them, people never can."""

import json
from collections.abc import Sequence

import pytest

import toolwright as tw
from tests.api.rig import JSON
from tests.api.town import ADA, SERVICE, Town, town
from tests.kit import call
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

HERE = "test_stacks.py"


@tw.tool(description="Fail.", visible=True)
async def fail(state: tw.ThreadState) -> str:
    raise ValueError("nothing works")


def failing() -> ScriptedModel:
    return ScriptedModel([call("fail"), call("ask_outside"), {"text": "Sorry."}])


outside = tw.Tool(name="ask_outside", description="Ask.", kind="external", visible=True, timeout=30.0)


async def streamed(made: Town, path: str, headers: dict[str, str]) -> Sequence[JSON]:
    """Return the recorded events of a thread or a run, as its stream shows them."""
    async with made.api.stream(f"{path}?after=0", **headers) as stream:
        return await stream.until("run.waiting")


async def test_no_person_reads_a_stack_whatever_they_look_at() -> None:
    async with town(model=failing(), tools=[fail, outside]) as made:
        thread, run = f"/api/threads/{made.ids['thread_id']}", f"/api/runs/{made.ids['run_id']}"
        calls = "/api/calls?status=done,error,waiting,pending"
        paths = (f"{thread}/messages", f"{thread}/children", thread, run, f"{run}/events", calls)
        for path in paths:
            shown = (await made.api.client.get(path, headers=ADA)).text
            assert HERE not in shown, path
        events = [*await streamed(made, f"{thread}/stream", ADA), *await streamed(made, f"{run}/stream", ADA)]
        assert HERE not in json.dumps(events)
        told = [event for event in events if "nothing works" in json.dumps(event)]
        assert {event["type"] for event in told} >= {"message", "tool.error"}


async def test_a_service_reads_stacks_in_messages_and_in_streams_also_after_a_person() -> None:
    async with town(model=failing(), tools=[fail, outside]) as made:
        thread = f"/api/threads/{made.ids['thread_id']}"
        for headers, reads in ((ADA, False), (SERVICE, True), (ADA, False)):
            messages = await made.get(f"{thread}/messages", headers)
            events = await streamed(made, f"{thread}/stream", headers)
            assert (HERE in json.dumps(messages), HERE in json.dumps(events)) == (reads, reads)
