"""Effects of a unit on other threads of a thread tree: every implementation returns the same."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.conformance.conftest import Journal
from tests.play import AT, Drain, begun, committed, create_thread, draft, dump, new_id, post, said, token

from toolwright.core.env.env import EnvChange, EnvRow
from toolwright.core.files import File, FileChange
from toolwright.core.journal.child_effects import (
    Activated,
    CancelChildren,
    Close,
    HandOff,
    Notify,
    Report,
    SetValue,
    Spawn,
    Speak,
    Stop,
    Terminate,
)
from toolwright.core.journal.effects import Deliver, Effect
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Apply, Claim, Committed, Conflict, Finish, Result
from toolwright.core.json_value import JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.threads.child import MUTE, Link
from toolwright.core.threads.event import Topic
from toolwright.core.threads.inbox import Delivery, InboxEvent
from toolwright.core.threads.run import QueuedCall, Run, RunStatus
from toolwright.core.threads.thread import Thread

pytestmark = pytest.mark.anyio


def act(*effects: Effect) -> Apply:
    return Apply(token=token(), at=AT, effects=effects)


async def done(store: Store, *effects: Effect) -> Committed:
    return await committed(store, act(*effects))


async def refused(store: Store, effect: Effect, guard: Guard) -> None:
    """Check that the guard rejects the effect, and that the journal is unchanged."""
    before = await dump(store)
    assert await store.commit(act(effect)) == Conflict(guard=guard)
    assert await dump(store) == before


def event(thread_id: str, event_id: str, type_: Any = "message", **content: Any) -> InboxEvent:  # any JSON
    return InboxEvent(thread_id=thread_id, event_id=event_id, type=type_, content=content, created_at=AT)


LINK = Link(resumable=True, hidden=("KEY",), output={"type": "string"})


def run_of(thread_id: str, run_id: str) -> Run:
    return Run(id=run_id, thread_id=thread_id, agent="worker", created_at=AT)


def file_at(thread_id: str, path: str) -> FileChange:
    file = File(
        thread_id=thread_id, path=path, id=new_id("fil"), name=path.rsplit("/", 1)[1], mime_type="text/plain",
        size=2, digest="d", created_at=AT,
    )  # fmt: skip
    return FileChange(path=path, file=file, new=True)


def spawn(child_id: str = "th_2", parent_id: str = "th_1", report: str | None = None, **fields: Any) -> Spawn:
    thread = Thread(
        id=child_id, agent="worker", parent_id=parent_id, name="Ada", tags=("name:Ada",), run_id=f"run_{child_id}",
        posted=1, ev=1, link=LINK, report=report, created_at=AT,
    )  # fmt: skip
    return Spawn(
        thread_id=child_id,
        thread=thread,
        event=event(child_id, f"msg_{child_id}"),
        run=run_of(child_id, f"run_{child_id}"),
        queued=draft("run.queued"),
        **fields,
    )


def speak(event_id: str, report: str | None = None, **fields: Any) -> Speak:
    return Speak(
        thread_id="th_2",
        event=event("th_2", event_id),
        run=run_of("th_2", f"run_{event_id}"),
        queued=draft("run.queued"),
        report=report,
        **fields,
    )


def report(call_id: str | None, state: Any = "idle", files: Sequence[FileChange] = ()) -> Report:
    parent = Thread(id="th_1", agent="helper", created_at=AT)
    notice = Delivery(
        thread=parent,
        event=event("th_1", "sub:1", "subagent"),
        run=run_of("th_1", "run_told"),
        queued=draft("run.queued"),
    )
    result: JSONObject = {"status": "success", "result": "done"}
    late = None if call_id is None else event("th_1", f"tr:{call_id}", "tool_result")
    return Report(
        thread_id="th_2",
        parent=parent,
        state=state,
        report=call_id,
        result=result,
        outcome=draft("tool.done"),
        late=late,
        notice=notice,
        finished=draft("subagent.finished"),
        files=tuple(files),
    )


async def child_of(store: Store, child_id: str = "th_2") -> Thread:
    found = await store.thread(child_id)
    assert found is not None
    return found


async def test_a_child_begins_once_with_all_that_it_brings(store: Store, journal: Journal) -> None:
    await create_thread(store)
    row = EnvRow(owner="th_2", kind="env", name="A", type="text", value="1", updated_at=AT)
    born = spawn(
        report="call_1", files=(file_at("th_2", "/attachments/a.txt"),),
        env=(EnvChange(owner="th_2", kind="env", name="A", row=row),),
    )  # fmt: skip
    answer = await done(store, born)
    assert answer.runs == (("th_2", "run_th_2"),)
    child = await child_of(store)
    assert (child.parent_id, child.link, child.report) == (
        "th_1",
        LINK,
        "call_1",
    )
    assert (child.run_id, child.posted, child.ev, child.child_status) == ("run_th_2", 1, 1, "running")
    assert [each.event_id for each in await store.unread("th_2")] == ["msg_th_2"]
    assert [each.path for each in await store.files("th_2")] == ["/attachments/a.txt"]
    assert [each.value for each in await store.env("th_2")] == ["1"]
    assert await store.wake("th_2") is not None
    assert [(e.thread_id, e.type, e.n) for e in journal.published] == [("th_2", "run.queued", 1)]
    before = await dump(store)
    assert (await done(store, born)).runs == ()
    assert await dump(store) == before


async def test_followers_of_the_parent_are_notified_once_of_a_child_that_no_call_has_begun(
    store: Store, journal: Journal
) -> None:
    await create_thread(store)
    born = spawn(told=draft("subagent.created", reference="th_2"))
    await done(store, born)
    await done(store, born)
    [told] = [each for each in journal.published if each.thread_id == "th_1"]
    assert (told.type, told.run_id, told.agent, told.n) == ("subagent.created", None, "helper", 1)
    assert [each.type for each in await store.events(Topic(kind="thread", id="th_1"))] == ["subagent.created"]


async def test_values_flow_down_and_families_are_listed(store: Store) -> None:
    await create_thread(store)
    row = EnvRow(owner="th_1", kind="env", name="A", type="text", value="1", updated_at=AT)
    await done(store, spawn())
    await done(store, spawn("th_3", "th_2"), spawn("th_4", "th_2"))
    change = EnvChange(owner="th_1", kind="env", name="A", row=row)
    drain = Drain(store, "th_3", run_of("th_3", "run_th_3"))
    await drain.do(drain.unit(Claim, {"status": "running", "held": True, "started_at": AT}, env=(change,)))
    assert [each.owner for each in await store.env("th_3")] == ["th_1"]
    view = await store.view("th_4")
    assert view is not None
    assert [each.owner for each in view.env] == ["th_1"]
    assert [each.id for each in await store.children.lineage("th_4")] == ["th_2", "th_1"]
    assert [each.id for each in await store.children.children("th_2")] == ["th_3", "th_4"]
    assert [each.id for each in await store.children.children("th_2", limit=1, offset=1)] == ["th_4"]
    assert await store.children.lineage("th_1") == await store.children.children("th_4") == []


async def test_a_call_is_awaited_while_a_running_child_knows_of_it(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn(report="call_1"), spawn("th_3"))
    assert await store.children.awaited("th_1", "call_1")
    assert not await store.children.awaited("th_1", "call_2")
    assert not await store.children.awaited("th_2", "call_1")
    await over(store)
    assert not await store.children.awaited("th_1", "call_1")  # no running thread would ever report it


async def test_the_living_children_are_counted_by_agent(store: Store) -> None:
    await create_thread(store)
    other = spawn("th_5")
    await done(store, spawn(), spawn("th_3"), spawn("th_4"), spawn("th_6", "th_2"))
    await done(store, replace(other, thread=replace(other.thread, agent="poet")), Terminate(thread_id="th_3"))
    assert await store.children.living("th_1") == {"worker": 2, "poet": 1}
    assert await store.children.living("th_4") == {}


async def test_a_message_joins_a_busy_thread_and_begins_a_run_in_an_idle_one(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn())
    assert (await done(store, speak("joins"))).runs == (("th_2", "run_th_2"),)
    await refused(store, speak("waits", report="call_2"), "busy")
    await refused(store, speak("joins"), "duplicate")
    await over(store)
    await done(store, report(None, "failed"))
    assert (await child_of(store)).child_status == "failed"
    assert (await done(store, speak("begins", report="call_2"))).runs == (("th_2", "run_begins"),)
    child = await child_of(store)
    assert (child.run_id, child.report, child.state) == ("run_begins", "call_2", None)
    assert [(each.event_id, each.run_id) for each in await store.unread("th_2")] == [("begins", "run_begins")]
    await refused(
        store, replace(speak("nowhere"), thread_id="th_9", event=event("th_9", "nowhere")), "thread"
    )


async def over(store: Store, child_id: str = "th_2", status: RunStatus = "completed") -> None:
    """Read everything in the child's run, and end it."""
    child = await child_of(store, child_id)
    assert child.run_id is not None
    run = await store.run(child.run_id)
    assert run is not None
    drain = Drain(store, child_id, run, child.epoch, child.seq)
    await drain.claim([each.event_id for each in await store.unread(child_id)])
    await drain.do(drain.unit(Finish, {"status": status, "completed_at": AT}))


async def test_the_call_that_waits_for_a_child_is_settled_inline(store: Store, journal: Journal) -> None:
    drain = await begun(store)
    waiting = drain.call("waiting")
    await drain.answer(waiting)
    await done(store, spawn(report=waiting.id))
    await over(store)
    journal.published.clear()
    await done(store, report(waiting.id, files=[file_at("th_1", "/attachments/a.txt")]))
    call = await store.call(waiting.id)
    assert call is not None
    assert (call.status, call.route, call.result) == (
        "resolved",
        "inline",
        {"status": "success", "result": "done"},
    )
    assert await store.unread("th_1") == []
    assert [each.path for each in await store.files("th_1")] == ["/attachments/a.txt"]
    assert [(e.thread_id, e.run_id, e.type) for e in journal.published] == [
        ("th_1", drain.run.id, "tool.done"),
        ("th_1", drain.run.id, "subagent.finished"),
    ]
    child = await child_of(store)
    assert (child.report, child.child_status) == (None, "idle")


async def test_a_late_end_goes_to_the_inbox_unless_it_has_no_reader(store: Store) -> None:
    drain = await begun(store)
    late, gone = drain.call("pending"), drain.call("done", position=1, completed_at=AT)
    await drain.answer(late, gone)
    await done(store, spawn(report=late.id))
    await over(store)
    await done(store, report(late.id))
    assert [each.event_id for each in await store.unread("th_1")] == [f"tr:{late.id}"]
    await done(store, speak("again", report=gone.id))
    await over(store)
    await done(store, report(gone.id))
    assert len(await store.unread("th_1")) == 1
    assert (await child_of(store)).report is None


async def test_an_end_that_is_not_awaited_is_one_event_for_the_next_run(
    store: Store, journal: Journal
) -> None:
    drain = await begun(store)
    await done(store, spawn())
    await over(store)
    await done(store, report(None))
    [told] = await store.unread("th_1")
    assert (told.event_id, told.type, told.promised) == ("sub:1", "subagent", "run_told")
    parent = await child_of(store, "th_1")
    assert (parent.run_id, parent.next_run_id) == (drain.run.id, "run_told")
    assert [e.type for e in journal.published if e.thread_id == "th_1"][-2:] == [
        "run.queued",
        "subagent.finished",
    ]
    numbers = [e.n for e in journal.published if e.thread_id == "th_1" and e.n is not None]
    assert numbers == sorted(set(numbers))


async def test_a_file_that_is_in_the_way_refuses_a_report_and_word(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn())
    path = file_at("th_1", "/attachments/a.txt")
    notice = report(None).notice
    assert notice is not None
    await done(store, Notify(thread_id="th_1", notice=notice, files=(path,)))
    await refused(store, report(None, files=[file_at("th_1", "/attachments/A.txt")]), "file")
    await refused(store, Notify(thread_id="th_1", notice=notice), "duplicate")


async def test_children_are_cancelled_and_their_end_is_not_reported(store: Store) -> None:
    drain = await begun(store)
    waiting = drain.call("waiting")
    await drain.answer(waiting)
    await done(store, spawn(report=waiting.id), spawn("th_3"))
    await done(store, CancelChildren(thread_id="th_1"))
    for child_id in ("th_2", "th_3"):
        child = await child_of(store, child_id)
        run = await store.run(str(child.run_id))
        assert run is not None
        assert (child.report, run.cancel_requested_at) == (MUTE, AT)
    await over(store, status="cancelled")
    before = await store.inbox("th_1")
    await done(store, report(waiting.id))
    call = await store.call(waiting.id)
    assert call is not None
    assert call.status == "waiting"
    assert await store.inbox("th_1") == before
    assert (await child_of(store)).report is None
    assert (await child_of(store)).state == "idle"


async def test_a_terminated_child_stays_so(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn(report="call_1"), spawn("th_3"))
    await done(store, Terminate(thread_id="th_2"), Close(thread_id="th_3"))
    run = await store.run("run_th_2")
    assert run is not None
    assert run.cancel_requested_at == AT
    await done(store, report("call_1"))
    for child_id in ("th_2", "th_3"):
        child = await child_of(store, child_id)
        assert (child.state, child.child_status) == ("terminated", "terminated")


async def test_no_one_speaks_to_a_terminated_thread(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn())
    await over(store)
    await done(store, report(None), Terminate(thread_id="th_2"))
    before = await dump(store)
    for message in (post("th_2"), post("th_2", "again")):
        assert await store.commit(message) == Conflict(guard="terminated")
    await refused(store, speak("joins"), "terminated")
    await refused(store, speak("begins", report="call_2"), "terminated")
    thread = await child_of(store)
    dropped = Delivery(
        thread=thread,
        event=event("th_2", "sub:2", "subagent"),
        run=run_of("th_2", "run_dropped"),
        queued=draft("run.queued"),
    )
    answer = await done(store, Deliver(delivery=dropped), Notify(thread_id="th_2", notice=dropped))
    assert answer.runs == ()
    opening = Drain(store, "th_2", run_of("th_2", "run_opened"), thread.epoch, thread.seq)
    claim = opening.unit(Claim, {"status": "running", "started_at": AT}, opens=True)
    assert await store.commit(claim) == Conflict(guard="fence")
    assert await dump(store) == before


async def test_what_a_unit_terminates_it_does_not_speak_to(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn())
    await over(store)
    before = await dump(store)
    unit = act(Terminate(thread_id="th_2"), speak("late"))
    assert await store.commit(unit) == Conflict(guard="terminated")
    assert await dump(store) == before
    await done(store, speak("last"), Terminate(thread_id="th_2"))
    run = await store.run("run_last")
    assert run is not None
    assert run.cancel_requested_at == AT


async def test_a_terminated_parent_is_not_notified(store: Store, journal: Journal) -> None:
    await create_thread(store)
    await done(store, Close(thread_id="th_1"))
    await done(store, spawn())
    await over(store)
    journal.published.clear()
    before = await store.inbox("th_1")
    await done(store, report(None))
    assert (await child_of(store)).state == "idle"
    assert (await store.inbox("th_1"), journal.published) == (before, [])


Ends = CancelChildren | Stop | Close | Terminate


async def family(store: Store) -> None:
    """th_2 is idle and parent of th_3, which is running and parent of th_4 (running as well) and of th_5 (idle)."""
    await create_thread(store)
    await done(store, spawn())
    await done(store, spawn("th_3", "th_2"), spawn("th_4", "th_3"), spawn("th_5", "th_3"))
    await over(store)
    await done(store, report(None))
    await over(store, "th_5")


@pytest.mark.parametrize("kind", [CancelChildren, Stop, Close, Terminate])
async def test_all_running_descendants_of_a_thread_stop(store: Store, kind: type[Ends]) -> None:
    await family(store)
    await done(store, kind(thread_id="th_2"))
    for child_id in ("th_3", "th_4"):
        child = await child_of(store, child_id)
        run = await store.run(f"run_{child_id}")
        assert run is not None
        assert (child.report, child.state, run.cancel_requested_at) == (MUTE, None, AT)
        assert await store.wake(child_id) is not None
    assert (await child_of(store, "th_5")).report is None
    assert (await child_of(store)).state == ("terminated" if kind in (Close, Terminate) else "idle")
    root = await child_of(store, "th_1")
    assert root.state is None


async def test_queued_follow_ups_of_a_run_stop_with_it_and_are_not_reported(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn())
    child = await child_of(store)
    drain = Drain(store, "th_2", run_of("th_2", "run_th_2"), child.epoch, child.seq)
    await drain.claim([each.event_id for each in await store.unread("th_2")])
    told = Delivery(
        thread=child,
        event=event("th_2", "sub:9", "subagent"),
        run=run_of("th_2", "run_next"),
        queued=draft("run.queued"),
    )
    await done(store, Deliver(delivery=told))
    await done(store, CancelChildren(thread_id="th_1"))
    for run_id in ("run_th_2", "run_next"):
        run = await store.run(run_id)
        assert run is not None
        assert run.cancel_requested_at == AT
    before = await store.inbox("th_1")
    await drain.do(drain.unit(Finish, {"status": "cancelled", "completed_at": AT}))
    await done(store, report(None))
    assert ((await child_of(store)).run_id, (await child_of(store)).report) == ("run_next", MUTE)
    assert await store.inbox("th_1") == before


async def test_a_thread_remembers_who_answers_and_what_has_begun(store: Store) -> None:
    await create_thread(store)
    await done(store, Activated(thread_id="th_1", sides=("side_a", "side_b")))
    assert (await child_of(store, "th_1")).activated == ("side_a", "side_b")
    await done(store, HandOff(thread_id="th_1", agent="expert"))
    thread = await child_of(store, "th_1")
    assert (thread.agent, thread.answering, thread.activated) == ("helper", "expert", ())


async def test_values_of_a_thread_are_kept_by_key(store: Store) -> None:
    await create_thread(store)
    await done(
        store,
        SetValue(thread_id="th_1", key="a", value="[1]"),
        SetValue(thread_id="th_1", key="b", value="2"),
    )
    await done(
        store,
        SetValue(thread_id="th_1", key="a", value='"new"'),
        SetValue(thread_id="th_1", key="b", value=None),
    )
    assert await store.children.value("th_1", "a") == '"new"'
    assert await store.children.value("th_1", "b") is None
    assert await store.children.value("th_2", "a") is None


async def test_all_values_of_a_thread_are_read_by_key(store: Store) -> None:
    await create_thread(store)
    await create_thread(store, "th_2")
    await done(
        store,
        SetValue(thread_id="th_1", key="a", value="[1]"),
        SetValue(thread_id="th_1", key="†a.ü \x01", value="null"),
        SetValue(thread_id="th_1", key="gone", value="2"),
    )
    await done(store, SetValue(thread_id="th_1", key="gone", value=None))
    assert await store.children.values("th_1") == {"a": "[1]", "†a.ü \x01": "null"}
    assert await store.children.values("th_2") == {}


async def test_what_lies_within_a_call_is_no_part_of_the_conversation(store: Store) -> None:
    drain = await begun(store)
    outer = drain.call("running", kind="prompt")
    await drain.answer(outer)
    inner = drain.call("running", id=f"{outer.id}.1", step=drain.run.step_count, parent_id=outer.id)
    told = said("within", drain.run.id, within=outer.id, side="side_b", by="prompt")
    await drain.do(
        drain.unit(
            Result, {"queued": (QueuedCall(name="a", arguments="{}"),)}, messages=(told,), nested=(inner,)
        )
    )
    [kept] = await store.children.within(outer.id)
    assert (kept.within, kept.side, kept.by, kept.content) == (outer.id, "side_b", "prompt", "within")
    assert [each.id for each in await store.children.nested(outer.id)] == [inner.id]
    view = await store.view("th_1")
    assert view is not None
    assert view.run is not None
    assert "within" not in [each.content for each in (*view.messages, *await store.messages("th_1"))]
    assert "within" in [each.content for each in await store.run_messages(drain.run.id)]
    assert [each.id for each in view.calls] == [outer.id]
    assert view.run.queued == (QueuedCall(name="a", arguments="{}"),)


async def test_a_message_can_be_changed_by_its_own_drain(store: Store) -> None:
    drain = await begun(store)
    await drain.answer(text="before")
    [message] = [each for each in await store.messages("th_1") if each.role == "assistant"]
    ref = AttachmentRef(id="f", path="/a", name="a", mime_type="text/plain", size=1)
    await drain.do(drain.unit(Result, edited=(replace(message, content="after", attachments=(ref,)),)))
    [changed] = [each for each in await store.messages("th_1") if each.role == "assistant"]
    assert (changed.id, changed.seq, changed.content, changed.attachments) == (
        message.id,
        message.seq,
        "after",
        (ref,),
    )


async def test_many_children_end_at_once_and_each_is_reported_once(store: Store) -> None:
    await create_thread(store)
    ids = [f"th_c{n}" for n in range(12)]
    await done(store, *[spawn(child_id) for child_id in ids])

    async def end(child_id: str) -> None:
        told = report(None)
        assert told.notice is not None
        notice = replace(
            told.notice,
            event=event("th_1", f"sub:{child_id}", "subagent"),
            run=run_of("th_1", f"run_by_{child_id}"),
        )
        await done(store, replace(told, thread_id=child_id, notice=notice))

    await asyncio.gather(*[end(child_id) for child_id in ids])
    unread = await store.unread("th_1")
    assert sorted(each.event_id for each in unread) == sorted(f"sub:{child_id}" for child_id in ids)
    assert [each.n for each in unread] == list(range(1, 13))
    assert len(await store.runs(thread_id="th_1")) == 1


async def test_several_words_for_one_thread_in_one_unit_all_arrive(store: Store) -> None:
    await create_thread(store)
    await done(store, spawn())
    told = report(None).notice
    assert told is not None

    def notice(number: int) -> Notify:
        new = replace(
            told,
            event=event("th_1", f"sub:{number}", "subagent"),
            run=run_of("th_1", f"run_told_{number}"),
        )
        return Notify(thread_id="th_1", notice=new)

    answer = await done(store, notice(1), notice(2), speak("a"), speak("b"))
    assert answer.runs == (
        ("th_1", "run_told_1"), ("th_1", "run_told_1"), ("th_2", "run_th_2"), ("th_2", "run_th_2"),
    )  # fmt: skip
    assert [each.event_id for each in await store.unread("th_1")] == ["sub:1", "sub:2"]
    assert [each.event_id for each in await store.unread("th_2")] == ["msg_th_2", "a", "b"]
    for thread_id in ("th_1", "th_2"):
        assert await store.wake(thread_id) is not None
