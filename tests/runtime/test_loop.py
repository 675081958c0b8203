"""The run loop: what is committed when, and how a run ends."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

import toolwright as tw
from tests.kit import hanging
from tests.runtime.rig import assert_valid, running
from toolwright.core.journal.units import Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tw.tool(description="Add two whole numbers.", read_only=True)
async def add(a: int, b: int) -> int:
    return a + b


def calling(*names: str, args: JSONObject | None = None) -> JSONObject:
    given: JSONObject = {"a": 1, "b": 2} if args is None else args
    return {"calls": [{"name": name, "args": given} for name in names]}


BAD: JSONObject = {
    "calls": [
        {"name": "nothing", "args": {}},
        {"name": "add", "args": {"a": "x"}},
        {"name": "add", "args": {"a": 1, "b": 2}},
        {"name": "add", "args": "{broken"},
    ]
}
outside = tw.Tool(
    name="ask_outside",
    description="Ask somebody outside.",
    kind="external",
    timeout=30.0,
    parameters={"type": "object", "properties": {}, "additionalProperties": False},
)


async def test_a_run_of_one_answer_with_three_calls_takes_seven_commits() -> None:
    model = ScriptedModel([calling("add", "add", "add"), {"text": "Three."}])
    async with running(model, [add]) as rig:
        run = await rig.run()
        assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", "Three.")
        assert rig.store.names == [
            "CreateThread", "PostMessage", "Claim", "Answer", "Result", "Result", "Result", "Answer",
        ]  # fmt: skip
        assert_valid(await rig.transcript(run.thread_id))
        assert await rig.store.wake(run.thread_id) is None


async def test_a_bad_call_settles_in_the_unit_before_it() -> None:
    model = ScriptedModel([BAD, {"text": "Done."}])
    async with running(model, [add]) as rig:
        run = await rig.run()
        assert run.status == "completed"
        assert rig.store.names == ["CreateThread", "PostMessage", "Claim", "Answer", "Result", "Answer"]
        messages = await rig.transcript(run.thread_id)
        assert_valid(messages)
        assert [m.status for m in messages if m.role == "tool"] == ["error", "error", "success", "error"]
        assert "add" in messages[2].content  # the existing names
        assert "b" in messages[3].content


async def test_an_answer_of_bad_calls_alone_adds_no_commit() -> None:
    model = ScriptedModel([calling("nothing", "nothing"), {"text": "Done."}])
    async with running(model, [add]) as rig:
        run = await rig.run()
        assert run.step_count == 2
        assert rig.store.names == ["CreateThread", "PostMessage", "Claim", "Answer", "Answer"]


async def test_a_parked_wait_takes_a_unit_to_park_one_to_submit_and_one_to_claim_with_the_result() -> None:
    model = ScriptedModel([calling("ask_outside", args={}), {"text": "Thanks."}])
    async with running(model, [outside], inline_wait=0.0) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.threads.send(thread.id, "Go")
        call_id = await parked(rig.rt, run.id)
        assert await rig.rt.calls.submit(run.id, call_id, {"answer": 42}) == "inline"
        run = await rig.rt.runs.wait(run.id, 10)
        assert rig.store.names[1:] == [
            "PostMessage", "Claim", "Answer", "Park", "SubmitResult", "Claim", "Answer",
        ]  # fmt: skip
        messages = await rig.transcript(thread.id)
        assert_valid(messages)
        assert messages[2].content == '{"answer":42}'


async def test_a_result_that_comes_while_the_run_waits_in_memory_needs_no_parking() -> None:
    model = ScriptedModel([calling("ask_outside", args={}), {"text": "Thanks."}])
    async with running(model, [outside], inline_wait=10.0) as rig:
        submitted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def submit(_: int, unit: Unit) -> None:
            if type(unit).__name__ == "Answer" and not submitted.done():
                [call] = await rig.rt.calls.list()
                submitted.set_result(await rig.rt.calls.submit(call.run_id, call.id, None))

        rig.store.after = submit
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.threads.send(thread.id, "Go")
        run = await rig.rt.runs.wait(run.id, 10)
        assert await submitted == "inline"
        assert "Park" not in rig.store.names
        assert (await rig.transcript(thread.id))[2].content == "null"


async def test_a_joined_message_is_written_with_the_answer_and_adds_only_its_own_commit() -> None:
    model = ScriptedModel([calling("add"), {"text": "Both."}])
    async with running(model, [add]) as rig:
        thread = await rig.rt.threads.create("tester")

        async def join(_: int, unit: Unit) -> None:
            if type(unit).__name__ == "Result":
                await rig.rt.threads.send(thread.id, "And this")

        rig.store.before = join
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        assert rig.store.names[1:] == ["PostMessage", "Claim", "Answer", "Result", "Answer"]
        messages = await rig.transcript(thread.id)
        assert_valid(messages)
        assert [(m.role, m.content) for m in messages if m.role == "user"] == [
            ("user", "Go"),
            ("user", "And this"),
        ]
        assert messages[-2].content == "And this"
        assert {m.run_id for m in messages} == {run.id}


async def test_a_run_ends_after_max_steps() -> None:
    model = ScriptedModel([calling("add")] * 9)
    async with running(model, [add], max_steps=3) as rig:
        run = await rig.run()
        assert (run.status, run.stop_reason, run.step_count) == ("completed", "max_steps", 3)
        assert_valid(await rig.transcript(run.thread_id))


async def test_a_timed_out_tool_gives_an_error_and_the_run_goes_on() -> None:
    hang, _ = hanging("hang", timeout=0.05)

    model = ScriptedModel([calling("hang", args={}), {"text": "So be it."}])
    async with running(model, [hang]) as rig:
        run = await rig.run()
        assert run.status == "completed"
        assert "Tool timed out after 50ms" in (await rig.transcript(run.thread_id))[2].content


async def test_a_wait_that_is_over_gives_an_error_and_a_late_result_starts_a_new_run() -> None:
    quick = tw.Tool(
        name="ask_outside",
        description="Ask somebody outside.",
        kind="external",
        timeout=0.05,
        parameters={"type": "object", "properties": {}},
    )
    model = ScriptedModel([calling("ask_outside", args={}), {"text": "Too late."}])
    async with running(model, [quick], inline_wait=0.0) as rig:
        run = await rig.run()
        messages = await rig.transcript(run.thread_id)
        assert '"error":"Tool timed out after 50ms"' in messages[2].content
        [call] = await rig.rt.calls.list()
        assert call.status == "pending"
        assert await rig.rt.calls.submit(run.id, call.id, {"late": True}) == "inbox"
        [later, _] = [await rig.rt.runs.wait(r.id, 10) for r in await until_runs(rig.rt, run.thread_id, 2)]
        assert later.id != run.id
        messages = await rig.transcript(run.thread_id)
        assert_valid(messages)
        told = [m.content for m in messages if m.role == "user"]
        assert told == ["Go", f'[Tool Result: ask_outside] (callId: {call.id}) {{"late":true}}']


async def test_a_model_that_refuses_fails_the_run_and_keeps_the_message() -> None:
    model = ScriptedModel([{"fail": "refused", "message": "The key is wrong."}])
    async with running(model) as rig:
        run = await rig.run()
        assert run.status == "failed"
        assert "The key is wrong." in (run.error or "")
        assert [m.content for m in await rig.transcript(run.thread_id)] == ["Go"]


async def test_a_handler_can_end_the_session_and_the_calls_behind_it_do_not_begin() -> None:
    ran: list[str] = []

    @tw.tool(description="Stops.")
    async def stop(state: tw.ThreadState) -> str:
        state.execution.stop_session()
        return "stopped"

    @tw.tool(description="Runs.")
    async def go() -> str:
        ran.append("go")
        return "ran"

    model = ScriptedModel([calling("stop", "go", args={}), {"text": "Never asked."}])
    async with running(model, [stop, go]) as rig:
        run = await rig.run()
        assert (run.status, run.stop_reason) == ("completed", "session_stop")
        assert ran == []
        messages = await rig.transcript(run.thread_id)
        assert_valid(messages)
        assert "before this call began" in messages[-1].content


async def test_a_repeated_call_id_of_one_answer_is_made_fresh() -> None:
    class Stuttering:
        name = "stuttering"

        async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
            same = ModelCall(id="same", name="add", arguments='{"a":1,"b":1}')
            yield ModelResponse(calls=(same, same)) if request.step == 1 else ModelResponse(text="Done.")

    async with running(Stuttering(), [add]) as rig:
        run = await rig.run()
        asked = (await rig.transcript(run.thread_id))[1].calls
        assert len({call.model_call_id for call in asked}) == 2
        assert len({call.id for call in asked}) == 2


async def parked(rt: Runtime, run_id: str) -> str:
    """Return the id of the call that the run waits for, once it is suspended."""
    async with asyncio.timeout(10):
        async for event in rt.events.follow(Topic(kind="run", id=run_id), after=0):
            if event.type == "run.waiting":
                [call] = await rt.calls.list(run_id=run_id)
                return call.id
    raise AssertionError


async def until_runs(rt: Runtime, thread_id: str, count: int) -> Sequence[Run]:
    """Return the thread's runs, once there are that many."""
    async with asyncio.timeout(10):
        async for _ in rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
            runs = await rt.runs.list(thread_id=thread_id)
            if len(runs) == count:
                return runs
    raise AssertionError
