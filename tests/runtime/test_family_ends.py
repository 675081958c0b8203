"""The ends of child sessions after errors, and who is notified."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.databases import OpenStore, store_on, stores
from tests.kit import DONE, Watched, call, send_to
from tests.runtime.family_rig import RESUMABLE
from tests.runtime.kin import kin
from tests.runtime.rig import Rig, nothing
from toolwright import testing
from toolwright.adapters.system import SystemClock
from toolwright.core.errors import (
    AlreadyOver,
    CallCancelled,
    InvalidRequest,
    NotFound,
    ThreadTerminated,
    Unwritable,
)
from toolwright.core.journal.child_effects import Close, Speak, Terminate
from toolwright.core.journal.units import (
    Apply,
    Claim,
    Conflict,
    CreateThread,
    PostMessage,
    Result,
    SetEnv,
    SubmitResult,
    Unit,
)
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelRequest
from toolwright.core.threads.child import Link
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Run
from toolwright.core.threads.thread import Thread
from toolwright.runtime.threads.thread_tree import first_run, message_for
from toolwright.wire.event import run_event

pytestmark = pytest.mark.anyio

store = store_on("memory", "sqlite", "postgres")
durable = store_on("sqlite", "postgres")
SHORT = 0.2  # seconds that a handler has to end once it is aborted


# tools, or the relations to other agents
def agent(name: str, turns: Sequence[object], *tools: Any) -> tw.Agent:
    """Return an agent that answers with these turns, callable by the agents that name it."""
    prompt = tw.Prompt(name, model=testing.ScriptedModel(turns), tools=[*tools])
    return tw.Agent(name, prompt, expose_as_tool=True, tool_description="Works.")


async def ended(rig: Rig, thread_id: str, text: str = "Go") -> Run:
    """Send the message. Return the run that reads it, after it has finished."""
    async with asyncio.timeout(20):
        return await rig.rt.runs.wait((await rig.rt.threads.send(thread_id, text)).id, 20)


async def results(rig: Rig, thread_id: str) -> list[Any]:  # any JSON, or text
    return [_read(each.content) for each in await rig.transcript(thread_id) if each.role == "tool"]


def _read(text: str) -> Any:  # any JSON, or text
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize("claims", [1, 2])
async def test_a_child_that_cannot_begin_is_an_error_of_the_call_that_waits_for_it(
    store: OpenStore, claims: int
) -> None:
    boss = agent("boss", [call("worker", message="Do"), DONE], {"name": "worker"})
    async with kin(store, boss, agent("worker", [DONE])) as rig:
        thread = await rig.rt.threads.create("boss")
        refused: list[str] = []

        async def refuse(_: int, unit: Unit) -> None:
            if isinstance(unit, Claim) and unit.thread_id != thread.id and len(refused) < claims:
                refused.append(unit.token)
                raise Unwritable

        rig.store.before = refuse
        assert (await ended(rig, thread.id)).output == "Done."
        [child] = await rig.rt.threads.children(thread.id)
        assert (child.child_status, child.report) == ("failed", None)
        [result] = await results(rig, thread.id)
        assert (result["error_code"], result["status"]) == ("subagent_failed", "failed")
        assert result["error"].startswith("The run cannot begin: ")


# ── large thread trees ──────────────────────────────────────────────────────────────────────────────────────────


async def with_children(rig: Rig, count: int) -> str:
    """Create a thread that already has that many children."""
    thread = await rig.rt.threads.create("boss")
    worker = (await rig.rt.agents.get("worker")).id
    for number in range(count):
        made = Thread(
            id=f"thr_{number}",
            agent=worker,
            parent_id=thread.id,
            link=Link(resumable=True),
            created_at=thread.created_at,
        )
        await rig.store.inner.commit(CreateThread(token=f"made {number}", at=thread.created_at, thread=made))
    return thread.id


async def test_a_child_behind_a_thousand_others_is_waited_for_and_seen() -> None:
    @tw.tool(description="Counts.")
    async def count(state: tw.ThreadState) -> int:
        return len(state.children)

    boss = agent("boss", [call("worker", message="Do"), call("count"), DONE], count, {"name": "worker"})
    async with (
        stores("memory", Path()) as store,
        kin(store, boss, agent("worker", [{"text": "I am."}])) as rig,
    ):
        thread_id = await with_children(rig, 1_001)
        assert (await ended(rig, thread_id)).output == "Done."
        assert await results(rig, thread_id) == ["I am.", 1_002]


async def test_more_than_a_thousand_children_are_counted_where_there_is_a_most() -> None:
    most = {"resumable": {"receives_messages": "side_a", "maxInstances": 1_001}}
    asked = call("subagent_create", agent="worker", name="Ada", message="Do")
    boss = agent("boss", [asked, DONE], {"name": "worker", **most})
    async with stores("memory", Path()) as store, kin(store, boss, agent("worker", [DONE])) as rig:
        thread_id = await with_children(rig, 1_001)
        assert (await ended(rig, thread_id)).output == "Done."
        [result] = await results(rig, thread_id)
        assert result["error"].startswith("'worker' already has the maximum of 1001 children")


# ── terminated threads ──────────────────────────────────────────────────────────────────────────────────────────


class Work:
    """A tool that runs until it is released, and an agent that uses it."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

        @tw.tool(description="Takes its time.")
        async def work() -> str:
            self.begun.set()
            await self.go_on.wait()
            return "worked"

        self.agent = agent("deep", [call("work"), DONE], work)


async def runs(rig: Rig, thread_id: str) -> list[str]:
    """Wait until all runs of the thread have ended. Return their statuses, oldest first."""
    found = [await rig.rt.runs.wait(each.id, 20) for each in await rig.rt.runs.list(thread_id=thread_id)]
    return [each.status for each in reversed(found)]


async def children(rig: Rig, thread_id: str) -> list[str]:
    return [each.id for each in await rig.rt.threads.children(thread_id)]


async def test_a_terminated_thread_stops_what_it_has_begun_and_never_runs_again(store: OpenStore) -> None:
    work = Work()

    @tw.tool(description="Ends it all.")
    async def end(state: tw.ThreadState) -> str:
        await work.begun.wait()
        await state.terminate()
        return "ended"

    boss = agent("boss", [call("deep", message="Do"), call("end")], end, {"name": "deep", "blocking": False})
    async with kin(store, boss, work.agent) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).stop_reason == "session_stop"
        work.go_on.set()
        [child] = await children(rig, thread.id)
        assert await runs(rig, child) == ["cancelled"]
        assert await runs(rig, thread.id) == ["completed"]
        assert await rig.store.unread(thread.id) == []


async def test_a_run_that_was_to_follow_in_a_terminated_thread_asks_no_model(store: OpenStore) -> None:
    @tw.tool(description="Ends it all.")
    async def end(state: tw.ThreadState) -> str:
        [child] = state.children
        [run] = await rig.rt.runs.list(thread_id=child.reference)
        await rig.rt.runs.wait(run.id, 20)  # now its end is in the inbox
        await state.terminate()
        return "ended"

    turns = [call("worker", message="Do"), call("end")]
    boss = agent("boss", turns, end, {"name": "worker", "blocking": False})
    async with kin(store, boss, agent("worker", [DONE])) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).stop_reason == "session_stop"
        assert await runs(rig, thread.id) == ["completed", "cancelled"]
        said = [each.role for each in await rig.transcript(thread.id)]
        assert said == ["user", "assistant", "tool", "assistant", "tool", "user"]


async def test_a_child_that_is_terminated_takes_its_family_with_it(store: OpenStore) -> None:
    work = Work()

    @tw.tool(description="Ends it.")
    async def end(state: tw.ThreadState) -> str:
        await work.begun.wait()
        [child] = state.children
        assert child.status == "idle"
        await state.terminate(child.reference)
        return "ended"

    turns = [call("subagent_create", agent="worker", name="Ada", message="Do"), call("end"), DONE]
    boss = agent("boss", turns, end, {"name": "worker", **RESUMABLE})
    worker = agent("worker", [call("deep", message="Do"), DONE], {"name": "deep", "blocking": False})
    async with kin(store, boss, worker, work.agent) as rig:
        thread = await rig.rt.threads.create("boss")
        await ended(rig, thread.id)
        work.go_on.set()
        [child] = await children(rig, thread.id)
        [grandchild] = await children(rig, child)
        assert await runs(rig, grandchild) == ["cancelled"]
        assert await runs(rig, child) == ["completed"]
        assert await runs(rig, thread.id) == ["completed"]
        assert await rig.store.unread(child) == []


async def test_a_child_of_one_session_stops_its_children_when_that_ends(store: OpenStore) -> None:
    work = Work()

    @tw.tool(description="Waits.")
    async def look() -> str:
        await work.begun.wait()
        return "It has begun."

    boss = agent("boss", [call("worker", message="Do"), DONE], {"name": "worker"})
    turns = [call("deep", message="Do"), call("look"), {"text": "Mine is done."}]
    worker = agent("worker", turns, look, {"name": "deep", "blocking": False})
    async with kin(store, boss, worker, work.agent) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).output == "Done."
        work.go_on.set()
        [child] = await children(rig, thread.id)
        [grandchild] = await children(rig, child)
        assert await runs(rig, grandchild) == ["cancelled"]
        assert await runs(rig, child) == ["completed"]
        assert (await results(rig, thread.id))[0] == "Mine is done."


async def test_a_handler_does_not_speak_to_a_child_that_it_terminates(store: OpenStore) -> None:
    @tw.tool(description="Ends it.")
    async def end(state: tw.ThreadState) -> str:
        [child] = state.children
        found = await state.get_child_thread(child.reference)
        assert found is not None
        await state.terminate(child.reference)
        with pytest.raises(ThreadTerminated):
            found.queue_message("Still there?")
        return "ended"

    turns = [call("subagent_create", agent="worker", name="Ada", message="Do"), call("end"), DONE]
    boss = agent("boss", turns, end, {"name": "worker", **RESUMABLE})
    async with kin(store, boss, agent("worker", [DONE])) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).output == "Done."
        [child] = await rig.rt.threads.children(thread.id)
        assert child.child_status == "terminated"
        assert await runs(rig, child.id) == ["completed"]
        assert (await results(rig, thread.id))[-1] == "ended"


@pytest.mark.parametrize("built_in", [True, False])
async def test_word_for_a_child_that_is_terminated_meanwhile_is_an_error(
    store: OpenStore, built_in: bool
) -> None:
    @tw.tool(description="Speaks.")
    async def speak(state: tw.ThreadState) -> object:
        [child] = state.children
        if built_in:
            result = await state.invoke_tool(
                "subagent_message", {"reference": child.reference, "message": "Again"}
            )
            return result.error_code
        found = await state.get_child_thread(child.reference)
        assert found is not None
        found.queue_message("Again")
        return "said"

    turns = [call("subagent_create", agent="worker", name="Ada", message="Do"), call("speak"), DONE]
    boss = agent("boss", turns, speak, {"name": "worker", **RESUMABLE})
    async with kin(store, boss, agent("worker", [DONE])) as rig:

        async def overtake(_: int, unit: Unit) -> None:
            if isinstance(unit, Result) and any(isinstance(each, Speak) for each in unit.effects):
                [child] = await children(rig, unit.thread_id)
                end = Terminate(thread_id=child)
                await rig.store.commit(Apply(token=f"end {unit.token}", at=unit.at, effects=(end,)))

        rig.store.before = overtake
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).output == "Done."
        answer = (await results(rig, thread.id))[-1]
        assert answer == "terminated" if built_in else answer["error_code"] == "terminated"
        [child] = await children(rig, thread.id)
        assert await runs(rig, child) == ["completed"]


async def test_a_message_from_outside_that_comes_too_late_is_refused(store: OpenStore) -> None:
    async with kin(store, agent("boss", [DONE])) as rig:
        thread = await rig.rt.threads.create("boss")

        async def overtake(_: int, unit: Unit) -> None:
            if isinstance(unit, PostMessage):
                end = Close(thread_id=thread.id)
                await rig.store.commit(Apply(token="end", at=unit.at, effects=(end,)))

        rig.store.before = overtake
        with pytest.raises(ThreadTerminated, match="is terminated, so no agent answers in it"):
            await rig.rt.threads.send(thread.id, "Hello?")
        assert await runs(rig, thread.id) == []


# ── failing batches ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_batch_that_fails_is_reported_once_when_it_is_set_aside(store: OpenStore) -> None:
    async def fail(request: ModelRequest) -> None:
        if "[Subagent" in request.messages[-1].content:
            raise RuntimeError("boom")

    work = Work()
    turns = [call("subagent_create", agent="worker", name="Ada", message="Do"), DONE]
    boss = agent("boss", [{"when": "[Subagent", "text": "I see."}, *turns], {"name": "worker", **RESUMABLE})
    model = Watched([call("deep", message="Do"), DONE], fail)
    worker = tw.Agent(
        "worker",
        tw.Prompt("worker", model=model, tools=[{"name": "deep", "blocking": False}]),
        expose_as_tool=True,
        tool_description="Works.",
    )
    async with kin(store, boss, worker, work.agent) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).output == "Done."
        [child] = await children(rig, thread.id)
        work.go_on.set()
        async with asyncio.timeout(20):
            async for _ in rig.rt.events.follow(Topic(kind="thread", id=child), after=0):
                if "failed" in [each.status for each in await rig.store.inbox(child)]:
                    break
        assert await runs(rig, child) == ["completed", "failed", "failed", "failed"]
        told = [each.content for each in await rig.store.inbox(thread.id) if each.type == "subagent"]
        assert [(each["status"], each["error"]) for each in told] == [("failed", "The model failed: boom")]
        assert (await rig.rt.threads.get(child)).child_status == "failed"


# ── handlers whose timeout has passed ───────────────────────────────────────────────────────────────────────────


async def test_a_child_whose_calling_handler_is_over_is_heard_in_the_inbox(store: OpenStore) -> None:
    work = Work()

    @tw.tool(description="Asks.", timeout=0.3)
    async def ask(state: tw.ThreadState) -> object:
        return (await state.invoke_tool("deep", {"message": "Do"})).result

    turns = [{"when": '"Done."', "text": "Late, but heard."}, call("ask"), {"text": "Never mind."}]
    boss = agent("boss", turns, ask, {"name": "deep"})
    async with kin(store, boss, work.agent) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).output == "Never mind."
        [answer] = await results(rig, thread.id)
        assert answer["error_code"] == "timeout"
        [child] = await children(rig, thread.id)
        work.go_on.set()
        assert await runs(rig, child) == ["completed"]
        [asked] = [each for each in await rig.rt.calls.list(status=["resolved"]) if each.name == "deep"]
        assert asked.route == "inbox"
        [late] = await rig.store.inbox(thread.id, 10, 1)
        assert (late.event_id, late.content["result"]) == (f"tr:{asked.id}", "Done.")
        async with asyncio.timeout(20):
            async for _ in rig.rt.events.follow(Topic(kind="thread", id=thread.id), after=0):
                if len(await rig.rt.runs.list(thread_id=thread.id)) == 2:
                    break
        assert await runs(rig, thread.id) == ["completed", "completed"]
        assert (await rig.transcript(thread.id))[-1].content == "Late, but heard."


@pytest.mark.idle_clock
async def test_a_handler_that_is_cancelled_with_its_run_takes_the_child_with_it(store: OpenStore) -> None:
    work = Work()

    @tw.tool(description="Asks.")
    async def ask(state: tw.ThreadState) -> object:
        return (await state.invoke_tool("deep", {"message": "Do"})).result

    boss = agent("boss", [call("ask")], ask, {"name": "deep"})
    async with kin(store, boss, work.agent, abort_grace=SHORT) as rig:
        run = await send_to(rig.rt, "boss")
        await work.begun.wait()
        await rig.rt.runs.cancel(run.id)
        [child] = await children(rig, run.thread_id)
        assert await runs(rig, child) == ["cancelled"]
        assert await runs(rig, run.thread_id) == ["cancelled"]
        [asked] = await rig.rt.calls.list(status=["cancelled"], run_id=run.id)
        assert asked.name == "deep"
        assert len(await rig.store.inbox(run.thread_id)) == 1


@pytest.mark.idle_clock
@pytest.mark.parametrize("forgets", ["times out", "returns"])
async def test_a_child_stopped_with_its_parent_is_no_longer_awaited(store: OpenStore, forgets: str) -> None:
    work = Work()
    forgotten: list[asyncio.Task[object]] = []

    @tw.tool(description="Asks.", timeout=0.3 if forgets == "times out" else None)
    async def ask(state: tw.ThreadState) -> object:
        asking = asyncio.create_task(state.invoke_tool("deep", {"message": "Do"}))
        forgotten.append(asking)
        if forgets == "times out":
            return (await asking).result
        await work.begun.wait()
        return "not awaited"

    @tw.tool(description="Ends all.")
    async def end(state: tw.ThreadState) -> str:
        await state.terminate()
        return "over"

    boss = agent("boss", [call("ask"), call("end")], ask, end, {"name": "deep"})
    async with kin(store, boss, work.agent, abort_grace=SHORT) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).stop_reason == "session_stop"
        [child] = await children(rig, thread.id)
        assert await runs(rig, child) == ["cancelled"]
        [asked] = [each for each in await rig.rt.calls.list(status=None) if each.name == "deep"]
        assert asked.status == "cancelled"
        assert asked.completed_at is not None
    await asyncio.gather(*forgotten, return_exceptions=True)


async def test_a_child_that_was_put_off_does_not_begin_once_its_parent_is_over(store: OpenStore) -> None:
    key = [tw.Variable("API_KEY", type="secret", scoped=True)]
    prompt = tw.Prompt("scout", model=testing.ScriptedModel([DONE]), variables=key)
    scout = tw.Agent("scout", prompt, expose_as_tool=True, tool_description="Looks.")
    async with kin(
        store, agent("boss", [call("scout", message="Go"), DONE], {"name": "scout"}), scout
    ) as rig:
        thread = await rig.rt.threads.create("boss")
        await ended(rig, thread.id)
        [request] = await rig.rt.requests.list(thread.id)

        async def overtake(_: int, unit: Unit) -> None:
            if isinstance(unit, SetEnv):
                rig.store.before = nothing
                gone = Close(thread_id=thread.id)
                await rig.store.commit(Apply(token="end", at=unit.at, effects=(gone,)))

        rig.store.before = overtake
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread.id, request.id, {"API_KEY": "sk-0123456789"})
        assert await children(rig, thread.id) == []


# tools, or the relations to other agents
def gives_up(name: str, turns: Sequence[object], *tools: Any) -> tw.Agent:
    """Return an agent with one session, which fails by its tool `give_up`."""

    @tw.tool(description="Fails.")
    async def give_up() -> str:
        return "given up"

    prompt = tw.Prompt(name, model=testing.ScriptedModel(turns), tools=[give_up, *tools])
    side = tw.Side(prompt, session_fail="give_up")
    return tw.Agent(name, side, expose_as_tool=True, tool_description="Works.")


async def test_a_child_that_failed_in_its_one_session_is_over(store: OpenStore) -> None:
    boss = agent("boss", [call("mid", message="Do"), DONE], {"name": "mid"})
    async with kin(store, boss, gives_up("mid", [call("give_up")])) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).status == "completed"
        [child] = await rig.rt.threads.children(thread.id)
        assert (child.child_status, child.status) == ("failed", "terminated")
        with pytest.raises(ThreadTerminated):
            await rig.rt.threads.send(child.id, "Once more")
        clock = SystemClock()
        run = first_run(child, "run_late", 0, clock)
        event = message_for(child, "msg_late", "Hello?", (), 0, clock)
        late = Speak(thread_id=child.id, event=event, run=run, queued=run_event(run))
        refused = await rig.store.inner.commit(Apply(token="late", at=child.created_at, effects=(late,)))
        assert isinstance(refused, Conflict)
        assert refused.guard == "terminated"
        assert len(await rig.store.inbox(thread.id)) == 1


async def test_what_a_failed_child_has_put_off_does_not_begin(store: OpenStore) -> None:
    key = [tw.Variable("API_KEY", type="secret", scoped=True)]
    prompt = tw.Prompt("scout", model=testing.ScriptedModel([DONE]), variables=key)
    scout = tw.Agent("scout", prompt, expose_as_tool=True, tool_description="Looks.")
    mid = gives_up("mid", [call("scout", message="Go"), call("give_up")], {"name": "scout"})
    boss = agent("boss", [call("mid", message="Do"), DONE], {"name": "mid"})
    async with kin(store, boss, mid, scout) as rig:
        thread = await rig.rt.threads.create("boss")
        await ended(rig, thread.id)
        [child] = await children(rig, thread.id)
        [request] = await rig.store.children.requests(child)
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(child, request.id, {"API_KEY": "sk-0123456789"})
        assert await children(rig, child) == []


async def test_who_took_over_a_child_that_hears_on_its_other_side_runs_its_own_children_once() -> None:
    expert = agent("expert", [DONE], {"name": "deep", "immediate": True})
    pair = tw.Agent(
        "pair",
        type="dual_ai",
        side_a=tw.Prompt("here", model=testing.ScriptedModel([DONE])),
        side_b=tw.Prompt("there", model=testing.ScriptedModel([call("expert")]), tools=["expert"]),
        max_session_turns=2,
        expose_as_tool=True,
        tool_description="Talks.",
    )
    turns = [call("subagent_create", agent="pair", name="Ada", message="Do"), call("again"), DONE]

    @tw.tool(description="Speaks to it again.")
    async def again(state: tw.ThreadState) -> str:
        [child] = state.children
        given: JSONObject = {"reference": child.reference, "message": "Once more"}
        return json.dumps((await state.invoke_tool("subagent_message", given)).result)

    hears = {"name": "pair", "resumable": {"receives_messages": "side_b"}}
    async with (
        stores("memory", Path()) as store,
        kin(store, agent("boss", turns, again, hears), pair, expert, agent("deep", [DONE])) as rig,
    ):
        thread = await rig.rt.threads.create("boss")
        await ended(rig, thread.id)
        [child] = await children(rig, thread.id)
        assert await runs(rig, child) == ["completed", "completed"]
        assert len(await children(rig, child)) == 1


async def test_an_agent_that_has_ended_its_home_thread_is_not_triggered() -> None:
    async with stores("memory", Path()) as store, kin(store, agent("boss", [DONE])) as rig:
        event = await rig.rt.inboxes.trigger("boss", "mail", {"n": 1})
        home = (await rig.rt.agents.get("boss")).home_thread_id
        gone = Close(thread_id=home)
        await rig.store.commit(Apply(token="end", at=SystemClock().now(), effects=(gone,)))
        with pytest.raises(ThreadTerminated, match="'boss' is terminated"):
            await rig.rt.inboxes.trigger("boss", "mail", {"n": 2})
        with pytest.raises(ThreadTerminated):
            await rig.rt.inboxes.retry("boss", event.event_id)


async def test_what_a_timed_out_call_has_begun_begins_nothing_more() -> None:
    deep_works, go_on, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    paid: list[str] = []
    tried: list[str] = []
    tasks: list[asyncio.Task[object]] = []

    @tw.tool(description="Pays.")
    async def pay() -> str:
        paid.append("paid")
        return "paid"

    @tw.tool(description="Works deep below.")
    async def deep(state: tw.ThreadState) -> str:
        deep_works.set()
        try:
            await go_on.wait()
            await state.invoke_tool("pay")
        except (asyncio.CancelledError, InvalidRequest) as error:
            tried.append(type(error).__name__)
            raise
        finally:
            gone.set()
        return "deep"

    @tw.tool(description="Leaves something at work.")
    async def mid(state: tw.ThreadState) -> str:
        tasks.append(asyncio.create_task(state.invoke_tool("deep")))
        await asyncio.Event().wait()
        return "mid"

    @tw.tool(description="Times out.", timeout=0.2)
    async def outer(state: tw.ThreadState) -> object:
        return (await state.invoke_tool("mid")).result

    @tw.tool(description="Looks later.")
    async def later() -> str:
        go_on.set()
        await gone.wait()
        return "later"

    boss = agent("boss", [call("outer"), call("later"), DONE], outer, mid, deep, pay, later)
    async with stores("memory", Path()) as store, kin(store, boss) as rig:
        thread = await rig.rt.threads.create("boss")
        assert (await ended(rig, thread.id)).output == "Done."
        assert (paid, len(tried)) == ([], 1)
    await asyncio.gather(*tasks, return_exceptions=True)


ASKS = tw.Tool(name="ask", description="Asks.", kind="external", is_async=True, parameters={"type": "object"})


@pytest.mark.parametrize("ends", ["its one session is over", "it ends itself", "its one session fails"])
async def test_no_result_waits_for_ever_in_a_thread_that_is_over(store: OpenStore, ends: str) -> None:
    rigs: list[Rig] = []

    @tw.tool(description="Hears of the first result, then the thread is over.")
    async def hear(state: tw.ThreadState) -> str:
        rt = rigs[0].rt
        first, _ = [each for each in await rt.calls.list() if each.name == "ask"]
        assert await rt.calls.submit(first.run_id, first.id, "in time") == "inbox"
        if ends == "it ends itself":
            await state.terminate()
        return "heard"

    last: list[object] = [DONE]
    if ends == "its one session fails":
        last = []  # no turns are left: the model fails
    asking: dict[str, Any] = {"calls": [{"name": "ask", "args": {}}] * 2}
    child = agent("worker", [asking, call("hear"), *last], ASKS, hear)
    boss = agent("boss", [call("worker", message="Do"), DONE], {"name": "worker"})
    async with kin(store, boss, child) as rig:
        rigs.append(rig)
        thread = await rig.rt.threads.create("boss")
        await ended(rig, thread.id)
        [over] = await rig.rt.threads.children(thread.id)
        assert over.is_over
        assert await rig.rt.calls.list() == []
        asked = [each for each in await rig.rt.calls.list(status=None) if each.name == "ask"]
        assert sorted(each.status for each in asked) == ["cancelled", "resolved"]
        [late] = [each for each in asked if each.status == "cancelled"]
        with pytest.raises(CallCancelled):
            await rig.rt.calls.submit(late.run_id, late.id, "too late")
        inbox = await rig.rt.inboxes.list("worker", over.id)
        assert [event.status for event in inbox if event.type == "tool_result"] == ["failed"]
        with pytest.raises(ThreadTerminated):
            await rig.rt.inboxes.retry("worker", inbox[-1].event_id, over.id)


async def test_no_result_is_submitted_to_a_deleted_agent(durable: OpenStore) -> None:
    async with kin(durable, agent("boss", [call("ask"), DONE], ASKS)) as rig:
        thread = await rig.rt.threads.create("boss")
        run = await ended(rig, thread.id)
    async with kin(durable, agent("other", [DONE])) as rig:  # the app no longer declares it
        [asked] = await rig.rt.calls.list()
        with pytest.raises(AlreadyOver, match="The agent of this tool call was deleted"):
            await rig.rt.calls.submit(run.id, asked.id, "too late")
        assert await rig.store.inner.inbox_event(thread.id, f"tr:{asked.id}") is None


@pytest.mark.parametrize("when", ["before the submission", "within it"])
async def test_a_deleted_agents_calls_are_neither_answered_nor_listed_nor_offered(
    store: OpenStore, tmp_path: Path, when: str
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps([call("ask"), DONE]))
    async with kin(store, tools=[ASKS]) as rig:
        await rig.rt.agents.save("scout", {"model": f"scripted:{script}", "tools": ["ask"]})
        thread = await rig.rt.threads.create("scout")
        run = await ended(rig, thread.id)
        [asked] = await rig.rt.calls.list()

        async def delete(_: int, unit: Unit) -> None:
            if isinstance(unit, SubmitResult):
                await rig.rt.agents.delete("scout")

        if when == "within it":  # the existence of the agent has been read already
            rig.store.before = delete
        else:
            await rig.rt.agents.delete("scout")
        with pytest.raises(CallCancelled):
            await rig.rt.calls.submit(run.id, asked.id, "too late")
        assert await rig.store.inner.inbox_event(thread.id, f"tr:{asked.id}") is None
        with pytest.raises(CallCancelled):
            await rig.rt.calls.claim(asked.id, "worker", 30.0)
        assert await rig.rt.calls.list() == []
        now = SystemClock().now()
        begun = await rig.store.inner.offers.claimable(now, after=(thread.created_at, ""), before=now)
        assert begun == []


async def test_calls_of_a_thread_that_is_over_hope_for_nothing_any_more(store: OpenStore) -> None:
    asks = tw.Tool(
        name="ask", description="Asks.", kind="external", timeout=0.1, parameters={"type": "object"}
    )

    @tw.tool(description="Ends all.")
    async def end(state: tw.ThreadState) -> str:
        await state.terminate()
        return "over"

    async with kin(store, agent("boss", [call("ask"), call("end")], asks, end)) as rig:
        thread = await rig.rt.threads.create("boss")
        run = await ended(rig, thread.id)
        assert run.stop_reason == "session_stop"
        assert await rig.rt.calls.list() == []
        [asked] = [each for each in await rig.rt.calls.list(status=None) if each.name == "ask"]
        assert asked.status == "cancelled"
        with pytest.raises(CallCancelled):
            await rig.rt.calls.submit(run.id, asked.id, "too late")
