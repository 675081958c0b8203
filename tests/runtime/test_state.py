"""What a handler emits within a run: checked, bounded, recorded with its result."""

from typing import Any

import pytest

import toolwright as tw
from tests.runtime.rig import running
from toolwright.core.event import Topic
from toolwright.core.json_value import JSONObject, dumps
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

BAD: Any = None  # what a user may pass all the same


def calling(name: str) -> JSONObject:
    return {"calls": [{"name": name, "args": {}}]}


@tw.tool(description="Say much.")
async def large(state: tw.ThreadState) -> str:
    state.emit("mine", "x" * 100_000)
    state.emit("mine", "short")
    return "fine"


@tw.tool(description="Say nothing.")
async def nameless(state: tw.ThreadState) -> str:
    state.emit(BAD, 1)
    return "fine"


@tw.tool(description="Say what cannot be said.")
async def half(state: tw.ThreadState) -> str:
    state.emit("bad\ud800", 1)
    return "fine"


async def test_a_large_event_keeps_its_id_and_says_that_it_is_cut() -> None:
    model = ScriptedModel([calling("large"), {"text": "done"}])
    async with running(model, [large]) as rig:
        thread = await rig.rt.threads.create("tester")
        await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        events = await rig.rt.events.list(Topic(kind="thread", id=thread.id))
        mine = [event.payload for event in events if event.type == "mine"]
        call_id = mine[0]["toolCallId"]
        assert mine == [
            {"toolCallId": call_id, "truncated": True},
            {"toolCallId": call_id, "data": "short"},
        ]
        assert all(len(dumps(event.payload)) <= 8_192 for event in events)


@pytest.mark.parametrize("made", [nameless, half])
async def test_a_faulty_type_of_an_event_is_the_calls_error(made: tw.Tool) -> None:
    model = ScriptedModel([calling(made.name), {"text": "done"}])
    async with running(model, [made]) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        assert (run.status, run.output) == ("completed", "done")
        assert "The type of an event is text" in (await rig.transcript(thread.id))[2].content
