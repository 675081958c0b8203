"""Events that a handler emits in a run: checked, bounded, recorded with its result."""

import ast
from pathlib import Path
from typing import Any, get_args

import pytest

import toolwright
import toolwright as tw
from tests.kit import call
from tests.runtime.rig import running
from toolwright.core.json_value import dumps
from toolwright.core.threads.event import BUILT_IN, Topic
from toolwright.core.threads.run import RunStatus
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

BAD: Any = None  # a value that a user can pass anyway


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
    model = ScriptedModel([call("large"), {"text": "done"}])
    async with running(model, [large]) as rig:
        run = await rig.run()
        events = await rig.rt.events.list(Topic(kind="thread", id=run.thread_id))
        mine = [event.payload for event in events if event.type == "mine"]
        call_id = mine[0]["toolCallId"]
        assert mine == [
            {"toolCallId": call_id, "truncated": True},
            {"toolCallId": call_id, "data": "short"},
        ]
        assert all(len(dumps(event.payload)) <= 8_192 for event in events)


@pytest.mark.parametrize("made", [nameless, half])
async def test_an_invalid_type_of_an_event_is_the_calls_error(made: tw.Tool) -> None:
    model = ScriptedModel([call(made.name), {"text": "done"}])
    async with running(model, [made]) as rig:
        run = await rig.run()
        assert (run.status, run.output) == ("completed", "done")
        assert (
            "The type of an event must be non-empty text" in (await rig.transcript(run.thread_id))[2].content
        )


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
async def test_the_runtimes_own_events_cannot_be_emitted(kind: str) -> None:
    @tw.tool(description="Pretends.")
    async def pretend(state: tw.ThreadState) -> str:
        state.emit(kind, {"status": "completed"})
        return "pretended"

    model = ScriptedModel([call("pretend"), {"text": "done"}])
    async with running(model, [pretend]) as rig:
        run = await rig.run()
        said = (await rig.transcript(run.thread_id))[2].content
        assert f"Events of the type '{kind}' are reserved for the runtime. Choose another type." in said


async def test_a_name_beside_those_of_the_runtime_can_be_emitted() -> None:
    @tw.tool(description="Emits.")
    async def tell(state: tw.ThreadState) -> str:
        state.emit("run.halfway")
        return "told"

    async with running(ScriptedModel([call("tell"), {"text": "done"}]), [tell]) as rig:
        run = await rig.run()
        events = await rig.rt.events.list(Topic(kind="thread", id=run.thread_id))
        assert "run.halfway" in [event.type for event in events]
        assert {event.type for event in events} - {"run.halfway"} <= BUILT_IN


def test_every_event_that_is_made_anywhere_is_among_those_of_the_runtime() -> None:
    made = {f"run.{'started' if each == 'running' else each}" for each in get_args(RunStatus)}
    for path in Path(toolwright.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                made |= {str(said) for said in _types(node, ast.unparse(node.func))}
    assert made <= BUILT_IN
    assert {
        "message",
        "tool.progress",
        "variables.required",
        "step.done",
        "member_added",
        "run.started",
    } <= made


def _types(call: ast.Call, function: str) -> list[object]:
    """Return the event types that a call of an emitting function names."""
    if function == "Event":
        given = [each.value for each in call.keywords if each.arg == "type"]
    elif function in ("EventDraft", "EventDraft.lazy") or (
        function.endswith("_event") and "." not in function
    ):
        given = call.args[:1]
    else:
        return []
    return [each.value for each in given if isinstance(each, ast.Constant)]
