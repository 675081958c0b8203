"""Threads are deleted completely, and only if nothing is in progress in them, in every journal."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.conformance.conftest import Journal
from tests.conformance.test_agents import agent, save
from tests.conformance.test_agents import drop as drop_agent
from tests.conformance.test_spaces import act, joins, made, member, message, says, space
from tests.play import (
    AT,
    Drain,
    begun,
    committed,
    create,
    create_thread,
    dump,
    later,
    leave,
    new_id,
    post,
    said,
    token,
)

from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.core.agents.memory import Passage
from toolwright.core.env.env import EnvChange, EnvRow, Variable, VariablesRequest
from toolwright.core.files import File, FileChange
from toolwright.core.journal.agent_effects import AddPassage, SetTimer
from toolwright.core.journal.child_effects import FulfillRequest, OpenRequest, SetValue, Spawn
from toolwright.core.journal.retention import DroppedBytes, DropThread, ForgetBytes, SweepThreads
from toolwright.core.journal.rows import Put
from toolwright.core.journal.space_effects import DropSpace, Post, React
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import (
    Committed,
    Conflict,
    PostMessage,
    Result,
    SetEnv,
    Unit,
)
from toolwright.core.mcp.servers import McpTask, task_timer
from toolwright.core.spaces import Reaction
from toolwright.core.threads.call import timer_of
from toolwright.core.threads.event import Topic
from toolwright.runtime.threads.deletion import Deletion
from toolwright.testing import ManualClock, MemoryBus
from toolwright.wire.call import call_message_id, visible_call_message

pytestmark = pytest.mark.anyio
RACES = 20


def drop(thread_id: str = "th_1", idle: float | None = None) -> DropThread:
    since = None if idle is None else later(idle)
    return DropThread(token=token(), at=AT, thread_id=thread_id, idle_since=since)


def sweep(limit: int = 1000) -> SweepThreads:
    return SweepThreads(token=token(), at=AT, limit=limit)


async def swept(store: Store, limit: int = 1000) -> list[int]:
    """Return the number of rows of each piece."""
    counts: list[int] = []
    while count := (await committed(store, sweep(limit))).count:
        counts.append(count)
    return counts


def file(thread_id: str, digest: str, path: str = "/a.txt") -> FileChange:
    row = File(
        id="fil_1",
        thread_id=thread_id,
        path=path,
        name="a.txt",
        mime_type="text/plain",
        size=1,
        digest=digest,
        created_at=AT,
    )
    return FileChange(path=path, file=row)


async def idle(store: Store, thread_id: str = "th_1") -> Drain:
    """Create a thread with data of every kind, whose run has finished."""
    drain = await begun(store, thread_id)
    await drain.answer(drain.call("done", completed_at=AT))
    messages, files = (said("hm", drain.run.id),), (file(thread_id, "d1"),)
    env = EnvRow(owner=thread_id, kind="env", name="N", type="text", value="v", updated_at=AT)
    change = EnvChange(owner=thread_id, kind="env", name="N", row=env)
    value = SetValue(thread_id=thread_id, key="k", value="1")
    await drain.do(drain.unit(Result, messages=messages, files=files, env=(change,), effects=(value,)))
    await drain.end()
    wake = await store.wake(thread_id)
    assert wake is not None
    return drain


def child(parent_id: str, thread_id: str) -> Spawn:
    unit = post(thread_id)
    thread = create(thread_id, parent_id=parent_id).thread
    thread = replace(thread, run_id=unit.run.id, posted=1, ev=1)
    return Spawn(thread_id=thread_id, thread=thread, event=unit.event, run=unit.run, queued=unit.queued)


async def test_a_deleted_thread_is_gone_with_all_that_it_had(store: Store) -> None:
    before = await dump(store)
    drain = await idle(store)
    assert (await committed(store, drop())).count == 1
    await swept(store)
    assert await dump(store) == before
    assert await store.run(drain.run.id) is None
    assert await store.steps(drain.run.id) == []
    assert await store.run_messages(drain.run.id) == []
    assert await store.files("th_1") == []
    assert await store.env_of("th_1") == []
    assert await store.children.values("th_1") == {}
    assert await store.events(Topic(kind="thread", id="th_1")) == []
    assert await store.events(Topic(kind="run", id=drain.run.id)) == []
    assert await store.wake("th_1") is None
    assert await store.commit(drop()) == Conflict(guard="thread")


async def test_what_is_not_deleted_keeps_everything(store: Store) -> None:
    await idle(store, "th_other")
    before = await dump(store)
    await idle(store)
    await committed(store, drop())
    await swept(store, 3)
    assert await dump(store) == before
    assert [each.digest for each in await store.files("th_other")] == ["d1"]
    assert len(await store.env_of("th_other")) == 1


async def test_rows_are_swept_up_in_pieces(journal: Journal) -> None:
    store = journal.store
    drain = await begun(store)
    for _ in range(5):
        await drain.answer(
            drain.call("done", completed_at=AT), drain.call("done", position=1, completed_at=AT)
        )
    await drain.end()
    await committed(store, drop())
    counts = await swept(store, 4)
    assert all(count <= 4 for count in counts)
    assert sum(counts) >= 5 + 10 + 5 + 1 or not counts  # memory has nothing left to sweep
    assert await store.calls() == []


LARGE, AT_ONCE = 20_000, 250  # rows of a thread, calls of one answer


class Watched:
    """A store that records the number of rows of each piece of a sweep, and the writes in between."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.pieces: list[int] = []

    async def commit(self, unit: Unit) -> Committed | Conflict:
        answer = await self._inner.commit(unit)
        if isinstance(unit, SweepThreads) and isinstance(answer, Committed):
            self.pieces.append(answer.count)
        return answer

    def __getattr__(self, name: str) -> object:  # reads pass through
        return getattr(self._inner, name)


async def test_a_thread_of_20_000_rows_goes_in_pieces_between_which_others_write(journal: Journal) -> None:
    watched = Watched(journal.store)
    drain = await begun(journal.store)
    for _ in range(LARGE // AT_ONCE):
        await drain.answer(*[drain.call("done", position=each, completed_at=AT) for each in range(AT_ONCE)])
    await drain.end()
    await create_thread(journal.store, "th_other")
    clock, files = ManualClock(), MemoryFiles()
    deletion = Deletion(watched, lambda _: None, MemoryBus(), files, clock, new_id)  # type: ignore[arg-type]  # reads pass through
    deleting = asyncio.create_task(deletion.delete("th_1", cancel=False))
    beside = list[int]()
    while not deleting.done():
        await committed(journal.store, post("th_other"))
        beside.append(len(watched.pieces))
        await asyncio.sleep(0)  # a journal in memory never makes another task wait
    await deleting
    # deletes rows that are left if a piece timed out on a busy machine, as housekeeping does
    await deletion.sweep()
    assert await journal.store.calls(limit=1) == []
    assert not await journal.store.retention.has_rows_left()
    if watched.pieces:  # memory has nothing left to sweep
        assert sum(watched.pieces) >= LARGE
        assert max(watched.pieces) <= 1_000
        assert len({seen for seen in beside if 0 < seen < len(watched.pieces)}) >= 3


async def test_a_running_thread_stays(store: Store) -> None:
    drain = await begun(store)
    before = await dump(store)
    assert await store.commit(drop()) == Conflict(guard="busy")
    assert await dump(store) == before
    await drain.end()
    await committed(store, drop())


async def test_a_running_child_keeps_its_parents_and_is_deleted_with_them(store: Store) -> None:
    await create_thread(store)
    await create_thread(store, "th_2", parent_id="th_1")
    spawn = child("th_2", "th_3")
    await committed(store, act(spawn))
    assert await store.commit(drop()) == Conflict(guard="busy")
    assert list(await store.retention.open_runs("th_1")) == [("th_3", spawn.run.id)]
    last = Drain(store, "th_3", spawn.run)
    await last.claim([spawn.event.event_id])
    await last.end()
    assert (await committed(store, drop())).count == 3
    await swept(store)
    assert await store.threads() == []
    assert await store.runs() == []


async def test_a_message_and_the_end_of_its_thread_have_one_winner(store: Store) -> None:
    for number in range(RACES):
        await create_thread(store, f"th_{number}")
    pairs: list[tuple[Unit, Unit]] = [(post(f"th_{n}"), drop(f"th_{n}")) for n in range(RACES)]
    units = [unit for n, pair in enumerate(pairs) for unit in (pair if n % 2 else pair[::-1])]
    answers = dict(
        zip([u.token for u in units], await asyncio.gather(*map(store.commit, units)), strict=True)
    )
    for n, (sent, dropped) in enumerate(pairs):
        outcome = (answers[sent.token], answers[dropped.token])
        there = await store.thread(f"th_{n}")
        if there is None:
            assert outcome[0] == Conflict(guard="thread")
            assert isinstance(sent, PostMessage)
            assert await store.run(sent.run.id) is None
            assert await store.wake(f"th_{n}") is None
        else:
            assert outcome[1] == Conflict(guard="busy")
            assert there.run_id is not None


async def test_a_child_that_begins_and_the_end_of_its_parent_leave_no_orphan(store: Store) -> None:
    for number in range(RACES):
        await create_thread(store, f"th_{number}")
        asked = VariablesRequest(
            id=f"req_{number}",
            thread_id=f"th_{number}",
            kind="child",
            agent="helper",
            required=(),
            created_at=AT,
        )
        await committed(store, act(OpenRequest(thread_id=asked.thread_id, request=asked)))
    begins = [
        act(FulfillRequest(thread_id=f"th_{n}", id=f"req_{n}"), child(f"th_{n}", f"th_{n}_child"))
        for n in range(RACES)
    ]
    drops = [drop(f"th_{n}") for n in range(RACES)]
    pairs: Sequence[tuple[Unit, Unit]] = [(b, d) for b, d in zip(begins, drops, strict=True)]
    await asyncio.gather(*[store.commit(u) for n, p in enumerate(pairs) for u in (p if n % 2 else p[::-1])])
    for thread in await store.threads(limit=100):
        assert thread.parent_id is None or await store.thread(thread.parent_id) is not None, thread.id


async def test_late_results_are_given_up_and_seen_so_in_spaces(journal: Journal) -> None:
    store = journal.store
    await committed(store, act(made(space()), joins(member("ent_ann"), 0)))
    drain = await begun(store)
    call = drain.call("pending", visible=True, space_id="spc_1", expires_at=later(1000))
    await drain.answer(call)
    shown = Post(space_id="spc_1", message=visible_call_message(call, "spc_1", "requires_action"))
    await committed(store, act(shown, SetTimer(name=timer_of(call.id), due=later(1000))))
    await drain.end()
    await committed(store, drop())
    await swept(store)
    [seen] = await store.spaces.messages("spc_1")
    assert seen.id == call_message_id(call.id)
    assert seen.metadata["status"] == "error"
    assert await store.wake(timer_of(call.id)) is None
    assert await store.call(call.id) is None


async def test_requests_and_tasks_of_a_deleted_thread_are_asked_no_more(store: Store) -> None:
    await create_thread(store)
    request = VariablesRequest(
        id="req_1",
        thread_id="th_1",
        kind="run",
        agent="helper",
        required=(Variable(name="KEY", type="secret", required=True, scoped=False, description=""),),
        created_at=AT,
    )
    task = McpTask(call_id="call_1", thread_id="th_1", agent_id="agt", server="s", task_id="t", created_at=AT)
    timer = SetTimer(name=task_timer("call_1"), due=later(5))
    await committed(store, act(OpenRequest(thread_id="th_1", request=request), Put(record=task), timer))
    await committed(store, drop())
    assert await store.children.request("req_1") is None
    assert await store.records.one(McpTask, "call_1") is None
    assert await store.wake(task_timer("call_1")) is None
    row = EnvRow(owner="ent", kind="env", name="KEY", type="text", value="v", updated_at=AT)
    change = EnvChange(owner="ent", kind="env", name="KEY", row=row)
    await committed(store, SetEnv(token=token(), at=AT, thread_id=None, env=(change,)))
    assert await store.wake("th_1") is None


async def test_bytes_are_noted_until_they_are_not_needed(store: Store) -> None:
    for thread_id, digests in (("th_1", ("d0", "d1", "d2")), ("th_2", ("d2",))):
        drain = await begun(store, thread_id)
        for digest in digests:  # one after the other: messages can still refer to the first
            await drain.do(drain.unit(Result, files=(file(thread_id, digest),)))
        await drain.end()
    await committed(store, drop("th_1"))
    await swept(store)
    notes = await store.retention.dropped_bytes("", 10)
    assert [(each.digest, each.needed) for each in notes] == [("d0", False), ("d1", False), ("d2", True)]
    assert [each.digest for each in await store.retention.dropped_bytes("d0", 1)] == ["d1"]
    await committed(store, forget(*notes[:2]))
    stale = replace(notes[2], at=notes[2].at - timedelta(seconds=1))
    await committed(store, forget(stale))
    assert [each.digest for each in await store.retention.dropped_bytes("", 10)] == ["d2"]


def forget(*notes: DroppedBytes) -> ForgetBytes:
    return ForgetBytes(token=token(), at=AT, dropped=notes)


async def test_only_what_is_idle_for_long_is_deleted_as_such(store: Store) -> None:
    drain = await idle(store)
    assert [each.id for each in await store.retention.idle(later(1), "", 10)] == ["th_1"]
    assert list(await store.retention.idle(AT, "", 10)) == []
    assert list(await store.retention.idle(later(1), "th_1", 10)) == []
    assert await store.commit(drop(idle=0)) == Conflict(guard="busy")
    wake = await store.wake("th_1")
    assert wake is not None
    assert await store.commit(drop(idle=1)) == Conflict(guard="busy")  # the thread has a wake-up
    await committed(store, leave("th_1", wake.gen))
    await committed(store, drop(idle=1))
    await swept(store)
    assert await store.run(drain.run.id) is None


async def test_the_passages_of_a_deleted_agent_go_in_pieces(journal: Journal) -> None:
    store = journal.store
    for one in (agent(1), agent(2)):
        await committed(store, save(one))
        passages = [
            Passage(agent_id=one.id, id=f"psg_{n}", content="some tea", created_at=AT) for n in range(25)
        ]
        await committed(store, act(*[AddPassage(passage=each) for each in passages]))
    await committed(store, drop_agent(agent(1)))
    pieces = await swept(store, 10)
    assert not isinstance(store, MemoryStore) or pieces == []
    assert isinstance(store, MemoryStore) or (max(pieces) <= 10 and sum(pieces) >= 25)
    assert list(await store.agents.passages(agent(1).id)) == []
    assert len(await store.agents.passages(agent(2).id)) == 25
    assert not await store.retention.has_rows_left()


async def test_the_messages_of_a_deleted_space_go_in_pieces_before_another_has_its_id(
    journal: Journal,
) -> None:
    store = journal.store
    for space_id in ("spc_1", "spc_2"):
        await committed(store, act(made(space(space_id)), joins(member("ent_ann", space_id), 0)))
        said = [message(space_id) for _ in range(25)]
        await committed(store, act(*[says(each) for each in said]))
        reactions = [
            Reaction(message_id=each.id, entity_id="ent_ann", emoji="+", created_at=AT) for each in said
        ]
        await committed(store, act(*[React(space_id=space_id, reaction=each) for each in reactions]))
    [first, *_] = await store.spaces.messages("spc_1")
    await committed(store, act(DropSpace(space_id="spc_1")))
    assert await store.spaces.message(first.id) is None
    if not isinstance(store, MemoryStore):
        assert await store.commit(act(made(space()))) == Conflict(guard="duplicate")
        pieces = await swept(store, 10)
        assert max(pieces) <= 10
        assert sum(pieces) >= 50
    await committed(store, act(made(space())))
    assert list(await store.spaces.messages("spc_1")) == []
    assert list(await store.spaces.reactions([first.id])) == []
    assert len(await store.spaces.messages("spc_2")) == 25
