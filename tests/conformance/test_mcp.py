"""MCP in every journal: tasks of servers, definitions that agents rely on, and calls that a server requests."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.conftest import Journal
from tests.conformance.test_agents import agent, drop, save
from tests.conformance.test_spaces import act, made, message, says, space, told
from tests.play import AT, Drain, begun, change, committed, draft, dump, later, settle

from toolwright.core.journal.agent_effects import (
    AcceptMcpTool,
    HoldMcpTool,
    PinMcpTool,
    SetTimer,
    UnholdMcpTool,
)
from toolwright.core.journal.effects import AddNestedCall, Effect
from toolwright.core.journal.rows import Delete, Guard, Put
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import CancelCall, Committed, Conflict, Expire, Park, Result, SubmitResult
from toolwright.core.json_value import JSONObject
from toolwright.core.mcp.servers import McpDefinition, McpTask
from toolwright.core.threads.call import Call, CallStatus
from toolwright.core.threads.event import Topic

pytestmark = pytest.mark.anyio

ODD = "nul\x00half\ud800'\"é茶"
"""A name that a server can choose, and that no database accepts as it is."""
TOOL = ("agt_1", "files", "read")


def task(call_id: str = "call_1", **fields: Any) -> McpTask:  # fields of McpTask
    given: dict[str, Any] = {"thread_id": "th_1", "server": "files", "task_id": "7", "created_at": AT}
    return McpTask(call_id=call_id, agent_id="agt_1", **{**given, **fields})


def definition(
    tool: str = "read", server: str = "files", agent_id: str = "agt_1", **fields: Any
) -> McpDefinition:  # fields of McpDefinition
    given: dict[str, Any] = {"digest": "first", "updated_at": AT}
    return McpDefinition(agent_id=agent_id, server=server, tool=tool, **{**given, **fields})


def hold(held: str = "second", key: tuple[str, str, str] = TOOL, seconds: float = 1) -> HoldMcpTool:
    agent_id, server, tool = key
    said: JSONObject = {"name": tool, "description": f"{held} {ODD}"}
    return HoldMcpTool(
        agent_id=agent_id, server=server, tool=tool, held=held, definition=said, at=later(seconds)
    )


def accept(held: str = "second", key: tuple[str, str, str] = TOOL, seconds: float = 2) -> AcceptMcpTool:
    agent_id, server, tool = key
    return AcceptMcpTool(agent_id=agent_id, server=server, tool=tool, held=held, at=later(seconds))


def unhold(key: tuple[str, str, str] = TOOL, seconds: float = 2) -> UnholdMcpTool:
    agent_id, server, tool = key
    return UnholdMcpTool(agent_id=agent_id, server=server, tool=tool, at=later(seconds))


async def pinned(store: Store, *definitions: McpDefinition) -> None:
    await committed(store, act(*[PinMcpTool(definition=each) for each in definitions]))


async def first_of(store: Store) -> McpDefinition:
    """Return the first of the agent's definitions."""
    return (await store.mcp.definitions("agt_1"))[0]


def waiting(held: HoldMcpTool, digest: str = "first") -> McpDefinition:
    """Return the definition with this digest, which contains the given one."""
    return definition(digest=digest, held=held.held, definition=held.definition, updated_at=held.at)


async def test_a_task_is_kept_as_it_was_set_last_until_it_is_dropped(store: Store) -> None:
    first = task(server=ODD, task_id=ODD, questions={ODD: "call_1.1", "b": {"of": [1, None]}})
    first = replace(first, output={"type": "object", ODD: ODD}, place="ab12", space_id="tea", session="s1")
    await committed(store, act(Put(record=first), Put(record=task("call_2"))))
    assert await store.records.one(McpTask, "call_1") == first
    now = replace(first, task_id="8", agent_id="agt_2", questions={}, created_at=later(3))
    await committed(store, act(Put(record=task(task_id="for a moment")), Put(record=now)))
    assert await store.records.one(McpTask, "call_1") == now
    await committed(store, act(Delete(kind=McpTask, key=("call_1",)), Delete(kind=McpTask, key=("none",))))
    assert await store.records.one(McpTask, "call_1") is None
    assert await store.records.one(McpTask, "call_2") == task("call_2")
    await committed(store, act(Put(record=first), Delete(kind=McpTask, key=("call_1",))))
    assert await store.records.one(McpTask, "call_1") is None
    await committed(store, act(Delete(kind=McpTask, key=("call_2",)), Put(record=first)))
    assert (await store.records.one(McpTask, "call_1"), await store.records.one(McpTask, "call_2")) == (
        first,
        None,
    )


async def test_the_tasks_of_a_thread_are_read_the_oldest_first(store: Store) -> None:
    tasks = [task("c", created_at=later(1)), task("b"), task("a", created_at=later(1)), task("d")]
    theirs = task("e", thread_id="th_2")
    await committed(store, act(*[Put(record=each) for each in (*tasks, theirs)]))
    assert [each.call_id for each in await store.records.list(McpTask, "th_1")] == ["b", "d", "a", "c"]
    assert list(await store.records.list(McpTask, "th_2")) == [theirs]
    assert list(await store.records.list(McpTask, "th_3")) == []


async def test_a_tool_is_pinned_as_it_was_used_first(store: Store) -> None:
    await pinned(store, definition())
    await pinned(store, definition(digest="second", updated_at=later(1)), definition("write"))
    assert list(await store.mcp.definitions("agt_1")) == [definition(), definition("write")]
    await pinned(store, definition("again"), definition("again", digest="second"))
    assert await first_of(store) == definition("again")


async def test_definitions_are_read_by_server_and_tool_whatever_their_names(store: Store) -> None:
    names = ("Z", "a", "a b", 'a"', "aé", "z", "é", "茶", ODD)
    keys = [(server, tool) for server in ("B", ODD, "b") for tool in names]
    await pinned(store, *[definition(tool, server) for server, tool in keys])
    await pinned(store, definition(agent_id="agt_2"))
    found = await store.mcp.definitions("agt_1")
    assert [(each.server, each.tool) for each in found] == sorted(keys)
    assert list(await store.mcp.definitions("agt_2")) == [definition(agent_id="agt_2")]
    assert list(await store.mcp.definitions("agt_3")) == []


async def test_another_definition_waits_and_a_newer_one_takes_its_place(store: Store) -> None:
    await pinned(store, definition(), definition("write"))
    await committed(store, act(hold("second", seconds=1)))
    assert await first_of(store) == waiting(hold("second", seconds=1))
    await committed(store, act(hold("second", seconds=5)))
    assert await first_of(store) == waiting(hold("second", seconds=1))
    await committed(store, act(hold("third", seconds=6)))
    await committed(store, act(hold("first", seconds=7)))
    third = waiting(hold("third", seconds=6))
    assert list(await store.mcp.definitions("agt_1")) == [third, definition("write")]


async def test_nothing_waits_for_a_tool_that_was_not_used_or_has_that_definition(store: Store) -> None:
    await pinned(store, definition())
    others = [("agt_2", "files", "read"), ("agt_1", "other", "read"), ("agt_1", "files", "write")]
    await committed(store, act(hold("first"), *[hold("second", key) for key in others]))
    assert list(await store.mcp.definitions("agt_1")) == [definition()]
    assert list(await store.mcp.definitions("agt_2")) == []


async def test_what_waits_is_the_definition_once_it_is_accepted(store: Store) -> None:
    odd = ("agt_1", ODD, ODD)
    await pinned(store, definition(), definition(ODD, ODD))
    await committed(store, act(hold(), hold("other", odd)))
    await committed(store, act(accept(), accept("other", odd, 3)))
    second = definition(digest="second", updated_at=later(2))
    changed = definition(ODD, ODD, digest="other", updated_at=later(3))
    assert list(await store.mcp.definitions("agt_1")) == [second, changed]
    await committed(store, act(hold("first", seconds=4)))
    first = waiting(hold("first", seconds=4), digest="second")
    assert await first_of(store) == first


@pytest.mark.parametrize(
    "effect",
    [
        accept("first"),
        accept("third"),
        accept("second", ("agt_1", "files", "write")),
        accept("second", ("agt_1", "other", "read")),
        accept("second", ("agt_2", "files", "read")),
        accept("second", ("agt_1", "files", "none")),
    ],
)
async def test_what_does_not_wait_is_not_accepted_and_leaves_no_trace(store: Store, effect: Effect) -> None:
    await pinned(store, definition(), definition("write"))
    await committed(store, act(hold(), Put(record=task())))
    others = (
        *(PinMcpTool(definition=definition("new")), Put(record=task(task_id="x")), unhold()),
        *(hold("third", ("agt_1", "files", "write")), Delete(kind=McpTask, key=("call_1",)), hold("fourth")),
    )
    assert await store.commit(act(*others, effect)) == Conflict(guard="mcp_tool")
    assert list(await store.mcp.definitions("agt_1")) == [waiting(hold()), definition("write")]
    assert await store.records.one(McpTask, "call_1") == task()


async def test_a_server_that_has_its_old_definition_again_holds_none(store: Store) -> None:
    await pinned(store, definition(), definition("write"))
    await committed(store, act(hold()))
    nobody = [("agt_2", "files", "read"), ("agt_1", "files", "none"), ("agt_1", "files", "write")]
    await committed(store, act(unhold(seconds=3), *[unhold(key) for key in nobody]))
    old = definition(updated_at=later(3))
    assert list(await store.mcp.definitions("agt_1")) == [old, definition("write")]
    assert await store.commit(act(accept())) == Conflict(guard="mcp_tool")
    await committed(store, act(unhold(seconds=9)))
    assert await first_of(store) == old


async def test_effects_on_one_tool_are_done_each_upon_those_before_it(store: Store) -> None:
    pin = PinMcpTool(definition=definition())
    await committed(store, act(pin, hold("second"), accept("second"), hold("third", seconds=5)))
    third = waiting(hold("third", seconds=5), digest="second")
    assert list(await store.mcp.definitions("agt_1")) == [third]
    refused = act(unhold(), accept("third"))
    assert await store.commit(refused) == Conflict(guard="mcp_tool")
    assert list(await store.mcp.definitions("agt_1")) == [third]
    await committed(store, act(accept("third", seconds=6), hold("third", seconds=7), unhold(seconds=8)))
    now = definition(digest="third", updated_at=later(6))
    assert list(await store.mcp.definitions("agt_1")) == [now]


async def test_a_deleted_agent_leaves_no_definitions(store: Store) -> None:
    one = agent()
    await committed(store, save(one))
    theirs = definition(agent_id="agt_2")
    await pinned(store, definition(), definition("write", ODD), theirs)
    await committed(store, act(hold(), Put(record=task())))
    await committed(store, drop(one))
    assert list(await store.mcp.definitions("agt_1")) == []
    assert list(await store.mcp.definitions("agt_2")) == [theirs]
    assert await store.records.one(McpTask, "call_1") == task()


async def test_of_many_who_use_a_tool_first_or_accept_it_one_is_heeded(store: Store) -> None:
    pins = [act(PinMcpTool(definition=definition(digest=f"{n}"))) for n in range(8)]
    await asyncio.gather(*[committed(store, pin) for pin in pins])
    [used] = await store.mcp.definitions("agt_1")
    assert used.digest in {f"{n}" for n in range(8)}
    await asyncio.gather(*[committed(store, act(hold("second", seconds=n))) for n in range(1, 9)])
    accepts = [store.commit(act(accept("second", seconds=n))) for n in range(10, 18)]
    answers = await asyncio.gather(*accepts)
    assert sum(isinstance(each, Committed) for each in answers) == 1
    assert answers.count(Conflict(guard="mcp_tool")) == 7
    [now] = await store.mcp.definitions("agt_1")
    assert (now.digest, now.held, now.definition) == ("second", None, None)


async def parent(store: Store, status: CallStatus = "waiting", thread_id: str = "th_1") -> tuple[Drain, Call]:
    """Return a call that a server executes, in a running thread."""
    drain = await begun(store, thread_id)
    call = drain.call(status, id=f"call_{thread_id}")
    await drain.answer(call)
    return drain, call


def question(above: Call, number: int = 0, **fields: Any) -> AddNestedCall:  # fields of Call
    """Return a question of the server that executes this call."""
    given: dict[str, Any] = {
        "id": f"{above.id}.{number}",
        "parent_id": above.id,
        "name": "elicit",
        "kind": "external",
        "status": "waiting",
        "position": number,
        "arguments": '{"message": "Which?"}',
        "expires_at": later(60),
        "started_at": AT,
    }
    call = replace(above, **{**given, **fields})
    return AddNestedCall(
        call=call, events=(draft("tool.started", callId=call.id), draft("tool.call", callId=call.id))
    )


@pytest.mark.parametrize("status", ["created", "running", "waiting", "pending"])
async def test_a_question_is_a_waiting_call_below_one_that_is_not_over(
    journal: Journal, status: CallStatus
) -> None:
    store = journal.store
    drain, above = await parent(store, status)
    thread, view = await store.thread("th_1"), await store.view("th_1")
    assert thread is not None and view is not None
    del journal.published[:]
    asked = question(above)
    await committed(store, act(asked, SetTimer(name=f"call:{asked.call.id}", due=later(60))))
    assert await store.call(asked.call.id) == asked.call
    assert list(await store.children.nested(above.id)) == [asked.call]
    assert await store.call(above.id) == above
    events = list(await store.events(Topic(kind="thread", id="th_1"), after=thread.ev))
    assert [(each.n, each.type, each.run_id, each.agent, each.at) for each in events] == [
        (thread.ev + 1, "tool.started", drain.run.id, "helper", AT),
        (thread.ev + 2, "tool.call", drain.run.id, "helper", AT),
    ]
    assert journal.published == events
    timer = await store.wake(f"call:{asked.call.id}")
    assert timer is not None and timer.due == later(60)
    assert await store.thread("th_1") == replace(thread, ev=thread.ev + 2)
    assert await store.view("th_1") == replace(view, thread=replace(thread, ev=thread.ev + 2))


async def test_a_question_is_answered_as_any_call_and_its_thread_goes_on(store: Store) -> None:
    drain, above = await parent(store)
    await committed(
        store, act(question(above), question(above, 1), AddNestedCall(call=question(above, 2).call))
    )
    answer = await committed(store, settle(SubmitResult, "th_1", f"{above.id}.0"))
    assert (answer.route, answer.run_id) == ("inline", drain.run.id)
    assert await store.commit(settle(SubmitResult, "th_1", f"{above.id}.0")) == Conflict(guard="call")
    assert await store.commit(settle(Expire, "th_1", f"{above.id}.1", later(59))) == Conflict(guard="call")
    await committed(store, settle(Expire, "th_1", f"{above.id}.1", later(60)))
    await committed(store, settle(CancelCall, "th_1", f"{above.id}.2"))
    assert [each.status for each in await store.children.nested(above.id)] == [
        *("resolved", "expired", "cancelled")
    ]
    flip = (change(above, "pending"),)
    await drain.do(drain.unit(Park, {"status": "waiting"}, changes=flip, events=(draft("run.waiting"),)))
    await committed(store, act(question(above, 3)))
    numbers = [each.n for each in await store.events(Topic(kind="thread", id="th_1"))]
    assert numbers == list(range(1, len(numbers) + 1))


async def refused(store: Store, effect: AddNestedCall, guard: Guard = "call") -> None:
    """Check that the question is rejected, together with its whole unit."""
    before = await dump(store)
    others = (Put(record=task()), SetTimer(name="call:x", due=later(1)))
    assert await store.commit(act(*others, effect)) == Conflict(guard=guard)
    assert await store.commit(act(effect, *others)) == Conflict(guard=guard)
    assert await dump(store) == before
    assert (await store.records.one(McpTask, "call_1"), await store.wake("call:x")) == (None, None)


@pytest.mark.parametrize("status", ["done", "error", "resolved", "expired", "cancelled"])
async def test_nothing_is_asked_for_a_call_that_is_over(store: Store, status: CallStatus) -> None:
    _, above = await parent(store, status)
    await refused(store, question(above))


async def test_nothing_is_asked_for_a_call_that_is_not_there_or_in_another_thread(store: Store) -> None:
    _, above = await parent(store)
    _, theirs = await parent(store, thread_id="th_2")
    await refused(store, question(above, parent_id="none"))
    await refused(store, question(above, parent_id=None))
    await refused(store, question(above, parent_id=theirs.id))
    await refused(store, question(above, thread_id="th_2"))
    await refused(store, question(above, thread_id="th_none"), "thread")


async def test_a_call_that_is_there_already_is_not_asked_again(store: Store) -> None:
    _, above = await parent(store)
    _, theirs = await parent(store, thread_id="th_2")
    await committed(store, act(question(above)))
    await refused(store, question(above, name="another"))
    await committed(store, settle(SubmitResult, "th_1", f"{above.id}.0"))
    await refused(store, question(above))
    await refused(store, question(above, id=theirs.id))
    before = await dump(store)
    assert await store.commit(act(question(above, 1), question(above, 1))) == Conflict(guard="call")
    assert await dump(store) == before


async def test_a_question_is_shown_in_a_space_by_the_commit_that_asks_it(journal: Journal) -> None:
    store = journal.store
    _, above = await parent(store)
    await committed(store, act(made(space())))
    del journal.published[:]
    shown = [says(message(content=text)) for text in ("Which?", "And which?")]
    answer = await committed(store, act(shown[0], question(above, space_id="spc_1", visible=True)))
    assert answer.seq == 1
    assert sorted([each.type for each in journal.published]) == ["space.message", "tool.call", "tool.started"]
    assert await store.commit(act(shown[1], question(above))) == Conflict(guard="call")
    assert [each.content for each in await store.spaces.messages("spc_1")] == ["Which?"]
    assert await told(store) == [(1, "space.message")]


async def test_of_many_who_ask_the_same_one_is_heeded(store: Store) -> None:
    _, above = await parent(store)
    thread = await store.thread("th_1")
    answers = await asyncio.gather(*[store.commit(act(question(above))) for _ in range(8)])
    assert sum(isinstance(each, Committed) for each in answers) == 1
    assert answers.count(Conflict(guard="call")) == 7
    after = await store.thread("th_1")
    assert thread is not None and after is not None and after.ev == thread.ev + 2
    assert len(await store.children.nested(above.id)) == 1


async def test_a_question_that_meets_the_end_of_its_call_is_asked_before_it_or_not_at_all(
    journal: Journal,
) -> None:
    store = journal.store
    for number in range(12):
        _, above = await parent(store, "pending" if number % 2 else "waiting", f"th_{number}")
        units = [act(question(above)), settle(CancelCall, above.thread_id, above.id)]
        if number % 3:
            units.reverse()
        del journal.published[:]
        answers = await asyncio.gather(*[store.commit(unit) for unit in units])
        awaits_approval = await store.call(f"{above.id}.0") is not None
        assert answers.count(Conflict(guard="call")) == (not awaits_approval)
        published = sorted(journal.published, key=lambda each: each.n or 0)
        assert journal.several_sessions or published == journal.published
        types = [each.type for each in published]
        assert types == [*(["tool.started", "tool.call"] if awaits_approval else []), "tool.done"]


async def test_questions_messages_and_results_at_once_are_numbered_without_gaps(journal: Journal) -> None:
    store = journal.store
    drain, above = await parent(store)
    await committed(store, act(made(space())))
    before = len(journal.published)

    async def advance() -> None:
        for _ in range(10):
            spoken = (says(message()),)
            await drain.do(drain.unit(Result, events=(draft("x"), draft("y")), effects=spoken))

    asks = [store.commit(act(says(message()), question(above, n))) for n in range(20)]
    *answers, _ = await asyncio.gather(*asks, advance())
    assert {type(each) for each in answers} == {Committed}
    events = list(await store.events(Topic(kind="thread", id="th_1")))
    assert [each.n for each in events] == list(range(1, len(events) + 1))
    published = [each for each in journal.published[before:] if each.thread_id == "th_1"]
    assert sorted(published, key=lambda each: each.n or 0) == events[-60:]  # on Postgres by several sessions
    assert [each.seq for each in await store.spaces.messages("spc_1", limit=100)] == list(range(1, 31))
