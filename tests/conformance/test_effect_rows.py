"""Effects on rows that the same unit has written, and on missing rows: the same in every journal."""

from dataclasses import replace
from typing import Any, cast, get_args

import pytest
from tests.conformance.conftest import Journal
from tests.conformance.test_children import report, spawn, speak
from tests.conformance.test_deletion import swept
from tests.conformance.test_effects import PLAN, everything, fires, leaves, reacts, reads, room
from tests.conformance.test_mcp import accept, hold, unhold
from tests.conformance.test_memory import block, link, passage
from tests.conformance.test_spaces import act, joins, made, member, message, says, space
from tests.play import AT, committed, create_thread, draft

from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.core.agents.memory import Vector
from toolwright.core.agents.mind import Goal, Memory
from toolwright.core.env.env import VariablesRequest
from toolwright.core.journal.agent_effects import (
    AcceptMcpTool,
    AddPassage,
    CheckMind,
    DropBlock,
    DropMind,
    DropPassage,
    DropPlan,
    DropTimer,
    FirePlan,
    HoldMcpTool,
    LinkBlock,
    PinMcpTool,
    SetBlock,
    SetPlan,
    SetTimer,
    SetVector,
    UnholdMcpTool,
    UnlinkBlock,
)
from toolwright.core.journal.child_effects import (
    Activated,
    BackOff,
    CancelChildren,
    ChangeCall,
    CheckRequest,
    ChildLimit,
    Close,
    CloseRequest,
    FulfillRequest,
    HandOff,
    Notify,
    OpenRequest,
    Report,
    SetValue,
    Spawn,
    Speak,
    Stop,
    Terminate,
)
from toolwright.core.journal.effects import AddNestedCall, Deliver, Effect
from toolwright.core.journal.rows import Add, Delete, Guard, Put
from toolwright.core.journal.space_effects import (
    Announce,
    Compact,
    DropMember,
    DropSpace,
    Edit,
    Enter,
    Erase,
    Hide,
    KeepTexts,
    MarkRead,
    Pin,
    Post,
    React,
    SaveMember,
    SaveSpace,
    Unreact,
)
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict
from toolwright.core.spaces import SpaceMessage
from toolwright.core.threads.call import Call
from toolwright.core.threads.compaction import Compaction
from toolwright.core.threads.event import Topic
from toolwright.core.value import Value
from toolwright.runtime.agents.semantics import vector_of

pytestmark = pytest.mark.anyio

__all__ = ["room"]

SAID = message(id="msg_new", content="Hi")
EDITED = replace(SAID, content="Hi there", edited_at=AT)
REQUEST = VariablesRequest(
    id="req_1", thread_id="th_1", kind="run", agent="helper", required=(), created_at=AT
)
GOAL = Goal(agent_id="agt_1", id="gol_1", description="g", status="open", priority="low", created_at=AT)
MEMORY = Memory(agent_id="agt_1", key="k", value="m", updated_at=AT)


def vector() -> Vector:
    found = vector_of("e", [1.0])
    assert found is not None
    return found


def edits(one: SpaceMessage, **fields: Any) -> Edit:  # fields of Edit
    return Edit(space_id="spc_1", message=one, events=(draft("space.message_edited"),), **fields)


def erases(message_id: str) -> Erase:
    return Erase(space_id="spc_1", message_id=message_id, events=(draft("space.message_deleted"),))


def unreacts(message_id: str) -> Unreact:
    return Unreact(space_id="spc_1", message_id=message_id, entity_id="ent_ann", emoji="+")


TOGETHER: dict[str, tuple[Effect, ...]] = {
    "a message is edited": (says(SAID), edits(EDITED)),
    "a message is edited, if it is there": (says(SAID), edits(EDITED, if_there=True)),
    "a message is erased": (says(SAID), erases(SAID.id)),
    "a message gets a reaction": (says(SAID), reacts(SAID.id)),
    "a reaction is taken back": (says(SAID), reacts(SAID.id), unreacts(SAID.id)),
    "a space is dropped": (says(SAID), reacts(SAID.id), DropSpace(space_id="spc_1")),
    "a passage gets a vector": (
        AddPassage(passage=passage("p")),
        SetVector(agent_id="agt_1", id="psg_0", vector=vector()),
    ),
    "a passage is dropped and stored": (
        AddPassage(passage=passage("p")),
        DropPassage(agent_id="agt_1", id="psg_0"),
        AddPassage(passage=passage("p")),
    ),
    "a request is held": (
        OpenRequest(thread_id="th_1", request=REQUEST),
        CheckRequest(thread_id="th_1", id="req_1"),
    ),
    "a request is taken": (
        OpenRequest(thread_id="th_1", request=REQUEST),
        FulfillRequest(thread_id="th_1", id="req_1"),
    ),
    "a thread changes in every way": (
        HandOff(thread_id="th_1", agent="agt_2"),
        Activated(thread_id="th_1", sides=("side_a",)),
        Enter(thread_id="th_1", space_id="spc_1"),
        BackOff(thread_id="th_1", faults=1, until=AT),
        Close(thread_id="th_1"),
    ),
    "a child is spoken to and terminated": (spawn(), speak("msg_2"), Terminate(thread_id="th_2")),
    "a value is written again": (
        SetValue(thread_id="th_1", key="k", value="1"),
        SetValue(thread_id="th_1", key="k", value=None),
        SetValue(thread_id="th_1", key="k", value="2"),
    ),
}


async def prepared(store: Store) -> Store:
    """A journal with a space of which Ann is a member, and an idle thread."""
    await committed(store, act(made(space()), joins(member("ent_ann"), 0)))
    await create_thread(store)
    return store


def _without_wake(found: Any) -> Any:  # a row of any kind, or the rows of a thread
    if not isinstance(found, dict):
        return found
    rows = cast("dict[str, Any]", found)
    return {name: each for name, each in rows.items() if name != "wake"}


async def contents(store: Store) -> dict[str, Any]:  # values of all kinds
    """Return all data that effects can write, without the numbers of wake-ups, which count writes."""
    agents = store.agents
    rows = {name: _without_wake(each) for name, each in (await everything(store)).items()}
    rows["timer"] = rows["timer"] and rows["timer"].due
    return {
        **rows,
        "passages": list(await agents.passages("agt_1")),
        "vectors": [(each.id, each.floats) for each in await agents.vectors("agt_1", limit=9)],
        "requests": list(await store.children.requests("th_1")),
        "values": dict(await store.children.values("th_1")),
        "said": [replace(each, created_at=AT) for each in await store.spaces.messages("spc_1")],
    }


@pytest.mark.parametrize("name", TOGETHER)
async def test_effects_of_one_unit_do_what_they_would_do_one_by_one(journal: Journal, name: str) -> None:
    expected = await prepared(MemoryStore(lambda _: None))
    for effect in TOGETHER[name]:
        await committed(expected, act(effect))
    store = await prepared(journal.store)
    journal.published.clear()
    await committed(store, act(*TOGETHER[name]))
    await swept(store)
    assert await contents(store) == await contents(expected)
    told = await expected.events(Topic(kind="spaces", id=""))
    assert [each.type for each in journal.published if each.space_id] == [each.type for each in told]


CALL = Call(
    id="call_1.0", thread_id="th_1", run_id="run_1", parent_id="call_1", name="elicit", kind="external",
    status="waiting", step=1, position=0, model_call_id="m", arguments="{}", created_at=AT,
)  # fmt: skip

FINDING: dict[type[Any], tuple[Effect, Guard | None]] = {  # the guard that fails if the row does not exist
    Post: (says(SAID), "space"),
    DropMind: (DropMind(agent_id="agt_none/ent_none"), None),
    Edit: (edits(EDITED), "message"),
    Erase: (erases(SAID.id), "message"),
    React: (reacts(SAID.id), "message"),
    Unreact: (unreacts(SAID.id), None),
    Announce: (Announce(space_id="spc_1"), None),
    SaveSpace: (SaveSpace(space_id="spc_1", space=space(), was=space()), "space"),
    DropSpace: (DropSpace(space_id="spc_1"), "space"),
    SaveMember: (joins(member("ent_ann"), 0), "space"),
    DropMember: (leaves("ent_ann"), "space"),
    MarkRead: (reads("ent_ann"), "member"),
    Enter: (Enter(thread_id="th_1", space_id=None), "thread"),
    DropTimer: (DropTimer(name="t"), None),
    Delete: (Delete(kind=Goal, key=("agt_1", "gol_1")), None),
    DropPlan: (DropPlan(agent_id="agt_1", id="pln_1"), None),
    FirePlan: (fires(), "plan"),
    DropBlock: (DropBlock(agent_id="agt_1", label="b"), "block"),
    LinkBlock: (link("b", "agt_2"), "block"),
    UnlinkBlock: (UnlinkBlock(agent_id="agt_1", label="b", reader_id="agt_2"), None),
    DropPassage: (DropPassage(agent_id="agt_1", id="psg_0"), "passage"),
    SetVector: (SetVector(agent_id="agt_1", id="psg_0", vector=vector()), None),
    HoldMcpTool: (hold(), None),
    AcceptMcpTool: (accept(), "mcp_tool"),
    UnholdMcpTool: (unhold(), None),
    AddNestedCall: (AddNestedCall(call=CALL), "thread"),
    Speak: (speak("msg_2"), "thread"),
    Report: (report(None), "thread"),
    Close: (Close(thread_id="th_1"), "thread"),
    CancelChildren: (CancelChildren(thread_id="th_1"), None),
    Stop: (Stop(thread_id="th_1"), "thread"),
    Terminate: (Terminate(thread_id="th_1"), "thread"),
    HandOff: (HandOff(thread_id="th_1", agent="agt_2"), "thread"),
    Activated: (Activated(thread_id="th_1", sides=("side_a",)), "thread"),
    BackOff: (BackOff(thread_id="th_1", faults=1, until=AT), "thread"),
    CloseRequest: (CloseRequest(thread_id="th_1", id="req_1"), None),
    Compact: (Compact(compaction=Compaction(thread_id="th_1", number=1, created_at=AT)), "thread"),
    Hide: (Hide(thread_id="th_1", seqs=(1,), by="me"), "thread"),
    Pin: (Pin(thread_id="th_1", seq=1, pinned=True, most=50), "thread"),
    CheckRequest: (CheckRequest(thread_id="th_1", id="req_1"), "request"),
    FulfillRequest: (FulfillRequest(thread_id="th_1", id="req_1"), "request"),
    ChangeCall: (ChangeCall(thread_id="th_1", call_id="call_1", fields={"result": None}), "call"),
}
NEEDING_NOTHING = {  # they insert the rows that they write, or check the number of rows
    CheckMind,
    KeepTexts,
    *(Deliver, Notify, Spawn, ChildLimit, OpenRequest, SetValue),
    *(Put, Add, SetTimer, SetPlan, SetBlock, AddPassage, PinMcpTool),
}
MAY_FIND_NOTHING = {
    # The row to delete may be gone already, which is the intended result.
    *(Unreact, Delete, DropTimer, DropPlan, DropMind, UnlinkBlock, CloseRequest),
    # They follow the state of other rows, which can have changed in the meantime.
    *(SetVector, HoldMcpTool, UnholdMcpTool),
    # They affect any number of rows, including none: followers, and children in progress.
    *(Announce, CancelChildren),
}


def leaves_of(kind: type[Value]) -> set[type[Value]]:
    """The product's effects among a class and the classes below it, without base classes."""
    below = [each for each in kind.__subclasses__() if each.__module__.startswith("toolwright.")]
    return {leaf for each in below for leaf in leaves_of(each)} or {kind}


def test_every_effect_says_what_it_does_where_it_finds_no_row() -> None:
    every = {leaf for kind in get_args(Effect) for leaf in leaves_of(kind)}
    assert {*FINDING, *NEEDING_NOTHING} == every
    assert {kind for kind, (_, guard) in FINDING.items() if guard is None} == MAY_FIND_NOTHING


@pytest.mark.parametrize("kind", FINDING)
async def test_an_effect_that_finds_no_row_fails_unless_it_may_find_none(
    store: Store, kind: type[Any]
) -> None:
    effect, guard = FINDING[kind]
    answer = await store.commit(act(effect))
    assert answer == Conflict(guard=guard) if guard else isinstance(answer, Committed)
    assert await store.threads() == []


async def test_an_edit_of_a_message_that_may_be_gone_finds_none_in_silence(
    journal: Journal, room: Store
) -> None:
    told = len(journal.published)
    answer = await committed(room, act(edits(EDITED, if_there=True)))
    assert (answer.count, journal.published[told:]) == (0, [])


async def test_wakes_of_one_time_come_by_name_in_every_journal(store: Store) -> None:
    await committed(store, act(*[SetTimer(name=name, due=AT) for name in ("b", "c", "a")]))
    assert [wake.thread_id for wake in await store.due(AT, 10)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        (CheckMind(agent_id="agt_1", kind="goals", keys=("new",), most=2), True),
        (CheckMind(agent_id="agt_1", kind="goals", keys=("new",), most=1), False),
        (CheckMind(agent_id="agt_1", kind="goals", keys=("gol_1",), most=1), True),
        (CheckMind(agent_id="agt_2", kind="goals", keys=("new",), most=1), True),
        (CheckMind(agent_id="agt_1", kind="goals", keys=("gol_1",), seen={"gol_1": GOAL}), True),
        (CheckMind(agent_id="agt_1", kind="goals", keys=("gol_1",), seen={}), False),
        (CheckMind(agent_id="agt_1", kind="goals", keys=("new",), seen={"new": GOAL}), False),
        (CheckMind(agent_id="agt_1", kind="memories", keys=("k",), seen={"k": MEMORY}), True),
        (CheckMind(agent_id="agt_1", kind="plans", keys=("pln_1",), seen={"pln_1": PLAN}), True),
        (CheckMind(agent_id="agt_1", kind="blocks", keys=("b",), seen={"b": block("b")}), True),
        (CheckMind(agent_id="agt_1", kind="blocks", keys=("c",), most=1), False),
        (CheckMind(agent_id="agt_2", kind="links", keys=("agt_1/c",), most=1), False),
        (CheckMind(agent_id="agt_2", kind="links", keys=("agt_1/b",), most=1), True),
    ],
)
async def test_what_an_agent_keeps_is_checked_in_the_unit(
    store: Store, check: CheckMind, *, holds: bool
) -> None:
    kept = (Put(record=GOAL), Put(record=MEMORY), SetPlan(plan=PLAN), SetBlock(block=block("b")))
    await committed(store, act(*kept, link("b", "agt_2")))
    answer = await store.commit(act(check))
    assert isinstance(answer, Committed) if holds else answer == Conflict(guard="mind")


async def test_a_block_is_compared_without_its_readers_however_it_was_written(store: Store) -> None:
    shared = replace(block("b"), is_shared=True)
    await committed(store, act(SetBlock(block=shared), link("b", "agt_2")))
    check = CheckMind(agent_id="agt_1", kind="blocks", keys=("b",), seen={"b": block("b")})
    await committed(store, act(check, SetBlock(block=shared)))
    assert list(await store.agents.blocks("agt_1")) == [shared]
