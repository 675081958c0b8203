"""A child with missing values is deferred, and starts when they are provided (S0 §6)."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

import toolwright as tw
from tests.behaviour.marks import requirement
from tests.databases import OpenStore, store_on
from tests.kit import send_to
from tests.runtime.kin import Ahead, kin
from tests.runtime.rig import Rig, assert_valid
from toolwright.adapters.system import new_id
from toolwright.core.errors import InvalidRequest, NoRoom, NotFound, VariablesRequired
from toolwright.core.journal.child_effects import Terminate
from toolwright.core.journal.units import Apply, SetEnv, Unit
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Topic
from toolwright.runtime.children.requests import drop_expired
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio

KEY = "sk-child-0123456789"
GIVEN = {"API_KEY": KEY, "REGION": "eu"}
FILE = tw.Attachment(name="note.txt", mime_type="text/plain", data="aGk=")


store = store_on("memory", "sqlite", "postgres")
memory = store_on("memory")


@tw.tool(
    description="Look.",
    variables=[
        tw.Variable("API_KEY", type="secret", scoped=True, description="The key"),
        tw.Variable("REGION", scoped=True),
    ],
)
async def look(state: tw.ThreadState) -> str:
    note = await state.read_file("/attachments/note.txt")
    return f"{await state.env('API_KEY')} {await state.env('REGION')} {note!r}"


def scout() -> tw.Agent:
    looks: dict[str, Any] = {"calls": [{"name": "look", "args": {}}]}
    model = ScriptedModel([looks, {"text": "Seen."}])
    prompt = tw.Prompt("scout_prompt", "Look.", model=model, tools=[look])
    return tw.Agent("scout", prompt, expose_as_tool=True, tool_description="Look.")


def asks(number: int = 1) -> dict[str, Any]:  # a turn of a script
    args = {
        "agent": "scout",
        "name": f"Ann {number}",
        "message": "Go",
        "attachments": ["/attachments/note.txt"],
    }
    return {"calls": [{"name": "subagent_create", "args": args}]}


def leader(
    *turns: dict[str, Any], most: int | None = None, tools: Sequence[tw.Tool] = ()
) -> tw.Agent:  # turns of a script
    model = ScriptedModel([*turns, {"text": "Told."}])
    child: dict[str, Any] = {
        "name": "scout",
        "resumable": {"receives_messages": "side_a", "maxInstances": most},
    }
    return tw.Agent("leader", tw.Prompt("leader_prompt", "Lead.", model=model, tools=[*tools, child]))


async def put_off(rig: Rig, user_id: str | None = None) -> tuple[str, list[str]]:
    """A thread whose children are deferred, and their requests."""
    thread = await rig.rt.threads.create("leader", user_id)
    run = await rig.rt.threads.send(thread.id, "Go", [FILE])
    assert (await rig.rt.runs.wait(run.id, 10)).status == "completed"
    return thread.id, [each.id for each in await rig.rt.requests.list(thread.id)]


async def ended(rig: Rig, thread_id: str) -> None:
    """Wait until a child of the thread has reported its end."""
    async with asyncio.timeout(10):
        async for event in rig.rt.events.follow(Topic(kind="thread", id=thread_id), after=0):
            if event.type == "subagent.finished":
                return


@requirement("S0-6-7")
async def test_the_values_are_the_childs_and_it_begins_with_its_message_and_files(store: OpenStore) -> None:
    async with kin(store, leader(asks()), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        [refused] = [each for each in await rig.transcript(thread_id) if each.role == "tool"]
        assert "subagent_env_required" in refused.content
        assert request_id in refused.content
        wanted = await rig.rt.requests.get(thread_id, request_id)
        assert (wanted.agent_name, wanted.missing) == ("scout", ("API_KEY", "REGION"))
        assert [(each.name, each.type, each.description) for each in wanted.required] == [
            ("API_KEY", "secret", "The key"),
            ("REGION", "text", ""),
        ]
        assert await rig.rt.threads.children(thread_id) == []
        done = await rig.rt.requests.answer(thread_id, request_id, GIVEN)
        [child] = await rig.rt.threads.children(thread_id)
        assert (child.id, child.name, child.parent_id) == (done.child_thread_id, "Ann 1", thread_id)
        assert await rig.rt.threads.env(child.id) == {"API_KEY": "secret", "REGION": "text"}
        assert await rig.rt.threads.env(thread_id) == {}
        await ended(rig, thread_id)
        happened = await rig.rt.events.list(Topic(kind="thread", id=thread_id))
        assert [each.type for each in happened if each.type.startswith("subagent.")] == [
            "subagent.created", "subagent.finished",
        ]  # fmt: skip
        said = await rig.transcript(child.id)
        assert_valid(said)
        assert said[0].content == "Go"
        assert said[2].content == "[redacted:API_KEY] eu b'hi'"
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread_id, request_id, GIVEN)


async def test_a_side_may_have_what_it_needs_in_its_own_prompt(memory: OpenStore) -> None:
    asks_scout: dict[str, Any] = {"calls": [{"name": "scout", "args": {"message": "Go"}}]}
    key = [tw.Variable("API_KEY", type="secret", scoped=True)]
    here = tw.Prompt("here", "You ask.", model=ScriptedModel([{"text": "Well?"}]))
    there = tw.Prompt(
        "there", "You know.", model=ScriptedModel([{"text": "Well."}]), variables=key, env={"API_KEY": KEY}
    )
    pair = tw.Agent(
        "scout",
        type="dual_ai",
        side_a=here,
        side_b=there,
        max_session_turns=1,
        expose_as_tool=True,
        tool_description="Look.",
    )
    model = ScriptedModel([asks_scout, {"text": "Told."}])
    boss = tw.Agent("leader", tw.Prompt("leader_prompt", "Lead.", model=model, tools=[{"name": "scout"}]))
    async with kin(memory, boss, pair) as rig:
        run = await send_to(rig.rt, "leader")
        assert (await rig.rt.runs.wait(run.id, 10)).status == "completed"
        [answer] = [each for each in await rig.transcript(run.thread_id) if each.role == "tool"]
        assert answer.content == "Well."


async def test_its_end_is_one_event_in_the_parents_inbox(store: OpenStore) -> None:
    async with kin(store, leader(asks(), {"text": "First."}, {"text": "I heard."}), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        await rig.rt.requests.answer(thread_id, request_id, GIVEN)
        await ended(rig, thread_id)
        runs = await rig.rt.runs.list(thread_id=thread_id)
        assert len(runs) == 2
        assert (await rig.rt.runs.wait(runs[0].id, 10)).status == "completed"
        events = await rig.store.inbox(thread_id)
        told = [event for event in events if event.type == "subagent"]
        assert len(told) == 1
        assert KEY not in repr(events)
        assert_valid(await rig.transcript(thread_id))


async def test_it_is_waited_for_as_it_is_configured_once_its_first_session_is_over(memory: OpenStore) -> None:
    @tw.tool(description="Speaks to it again.")
    async def again(state: tw.ThreadState) -> str:
        [child] = state.children
        given: JSONObject = {"reference": child.reference, "message": "Once more"}
        result = (await state.invoke_tool("subagent_message", given)).result
        assert isinstance(result, dict)
        return f"{result['status']}: {result.get('result')}"

    speaks: dict[str, Any] = {"when": "Ask it again", "calls": [{"name": "again", "args": {}}]}
    asking = leader(speaks, {"when": "[Subagent", "text": "I heard."}, asks(), tools=[again])
    async with kin(memory, asking, scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        await rig.rt.requests.answer(thread_id, request_id, GIVEN)
        await ended(rig, thread_id)
        [told, _] = await rig.rt.runs.list(thread_id=thread_id)
        await rig.rt.runs.wait(told.id, 10)
        run = await rig.rt.threads.send(thread_id, "Ask it again")
        assert (await rig.rt.runs.wait(run.id, 10)).status == "completed"
        answers = [m.content for m in await rig.transcript(thread_id) if m.tool_name == "again"]
        assert answers == ["idle: Seen."]


async def test_of_twenty_answers_at_once_one_begins_the_child(store: OpenStore) -> None:
    async with kin(store, leader(asks()), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        answers = await asyncio.gather(
            *[rig.rt.requests.answer(thread_id, request_id, GIVEN) for _ in range(20)], return_exceptions=True
        )
        good = [each for each in answers if not isinstance(each, BaseException)]
        assert len(good) == 1
        assert {type(each) for each in answers if isinstance(each, BaseException)} == {NotFound}
        assert len(await rig.rt.threads.children(thread_id)) == 1
        await ended(rig, thread_id)
        assert len(await rig.rt.runs.list(thread_id=good[0].child_thread_id)) == 1


async def test_of_twenty_parts_at_once_one_child_begins(store: OpenStore) -> None:
    async with kin(store, leader(asks()), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        parts: list[dict[str, str]] = [{"API_KEY": KEY}, {"REGION": "eu"}] * 10
        answers = await asyncio.gather(
            *[rig.rt.requests.answer(thread_id, request_id, part) for part in parts], return_exceptions=True
        )
        assert any(not isinstance(each, BaseException) for each in answers)
        refused = [each for each in answers if isinstance(each, BaseException)]
        assert {type(each) for each in refused} <= {NotFound, VariablesRequired}
        assert len(await rig.rt.threads.children(thread_id)) == 1
        await ended(rig, thread_id)


async def test_parts_keep_the_request_open_and_other_names_are_refused(memory: OpenStore) -> None:
    async with kin(memory, leader(asks()), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        with pytest.raises(InvalidRequest, match="was not requested"):
            await rig.rt.requests.answer(thread_id, request_id, {**GIVEN, "OTHER": "x"})
        with pytest.raises(VariablesRequired) as lacking:
            await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": KEY})
        assert lacking.value.missing == ["REGION"]
        assert (await rig.rt.requests.get(thread_id, request_id)).missing == ("REGION",)
        await rig.rt.requests.answer(thread_id, request_id, {"REGION": "eu"})
        assert len(await rig.rt.threads.children(thread_id)) == 1


async def test_a_request_is_over_after_a_day(memory: OpenStore) -> None:
    clock = Ahead()
    async with kin(memory, leader(asks()), scout(), clock=clock) as rig:
        thread_id, [request_id] = await put_off(rig)
        clock.ahead = timedelta(hours=23, minutes=59)
        assert (await rig.rt.requests.get(thread_id, request_id)).missing == ("API_KEY", "REGION")
        clock.ahead = timedelta(hours=24, minutes=1)
        with pytest.raises(NotFound):
            await rig.rt.requests.get(thread_id, request_id)
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread_id, request_id, GIVEN)
        assert await rig.rt.requests.list(thread_id) == []


async def test_an_expired_request_is_taken_away_with_the_secrets_given_in_part(store: OpenStore) -> None:
    clock = Ahead()
    async with kin(store, leader(asks(1), asks(2)), scout(), clock=clock) as rig:
        thread_id, [first, second] = await put_off(rig)
        owners = [await child_of(rig, each) for each in (first, second)]
        for request_id in (first, second):
            with pytest.raises(VariablesRequired):
                await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": KEY})
        await rig.rt.threads.set_env(thread_id, {"API_KEY": KEY})
        assert await drop_expired(rig.store.inner, clock, new_id) == 0
        assert [len(await rig.store.env_of(owner)) for owner in (*owners, thread_id)] == [1, 1, 1]
        clock.ahead = timedelta(hours=24, minutes=1)
        assert await drop_expired(rig.store.inner, clock, new_id) == 2
        assert await rig.store.children.requests(thread_id) == []
        assert [len(await rig.store.env_of(owner)) for owner in (*owners, thread_id)] == [0, 0, 1]
        assert await drop_expired(rig.store.inner, clock, new_id) == 0
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread_id, first, GIVEN)


async def test_an_answer_that_comes_with_the_end_of_its_request_leaves_no_values(store: OpenStore) -> None:
    clock = Ahead()
    async with kin(store, leader(asks()), scout(), clock=clock) as rig:
        thread_id, [request_id] = await put_off(rig)
        owner = await child_of(rig, request_id)

        async def expire(_: int, unit: Unit) -> None:
            if isinstance(unit, SetEnv):  # it was validated while the request was open
                clock.ahead = timedelta(hours=24, minutes=1)
                await drop_expired(rig.store.inner, clock, new_id)

        rig.store.before = expire
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread_id, request_id, {"API_KEY": KEY})
        assert await rig.store.env_of(owner) == []


async def child_of(rig: Rig, request_id: str) -> str:
    """Return the id of the thread that is to be started."""
    request = await rig.store.children.request(request_id)
    assert request is not None
    assert request.child is not None
    return str(request.child["threadId"])


async def test_a_request_ends_with_its_parent(memory: OpenStore) -> None:
    async with kin(memory, leader(asks()), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        gone = Terminate(thread_id=thread_id)
        await rig.store.commit(Apply(token="t", at=Ahead().now(), effects=(gone,)))
        with pytest.raises(NotFound):
            await rig.rt.requests.answer(thread_id, request_id, GIVEN)
        assert await rig.rt.threads.children(thread_id) == []


async def test_no_more_children_begin_than_there_may_be(store: OpenStore) -> None:
    async with kin(store, leader(*[asks(n) for n in range(8)], most=1), scout()) as rig:
        thread_id, requests = await put_off(rig)
        assert len(requests) == 8
        answers = await asyncio.gather(
            *[rig.rt.requests.answer(thread_id, one, GIVEN) for one in requests], return_exceptions=True
        )
        assert sorted(type(each).__name__ for each in answers) == ["FulfilledRequest", *["NoRoom"] * 7]
        assert len(await rig.rt.threads.children(thread_id)) == 1
        left = [each.id for each in await rig.rt.requests.list(thread_id)]
        assert len(left) == 7
        assert (await rig.rt.requests.get(thread_id, left[0])).missing == ("API_KEY", "REGION")
        with pytest.raises(NoRoom, match="The maximum number of children of 'scout' is reached"):
            await rig.rt.requests.answer(thread_id, left[0], GIVEN)


@requirement("S0-3-5")
async def test_a_value_of_the_parent_is_none_of_the_child(memory: OpenStore) -> None:
    async with kin(memory, leader(asks()), scout()) as rig:
        thread_id, [request_id] = await put_off(rig)
        await rig.rt.threads.set_env(thread_id, {"API_KEY": KEY, "REGION": "us"})
        assert (await rig.rt.requests.get(thread_id, request_id)).missing == ("API_KEY", "REGION")
