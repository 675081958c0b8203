"""A deleted thread is removed with all its data, and with nothing of others."""

import base64
from datetime import datetime, timedelta

import pytest

import toolwright as tw
from tests.databases import OpenStore, store_on
from tests.kit import call
from tests.runtime.rig import Rig, nothing, running
from tests.runtime.test_backoff import Refusing, town
from toolwright.adapters.memory import MemoryFiles
from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.errors import InvalidRequest, NotFound, StoreError, ThreadBusy
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.journal.retention import DropThread, SweepThreads
from toolwright.core.journal.units import Apply, Unit
from toolwright.core.results import Attachment
from toolwright.runtime.threads.deletion import BYTES_KEPT
from toolwright.testing import ManualClock, ScriptedModel

pytestmark = pytest.mark.anyio
journal = store_on("memory", "sqlite", "postgres")

ANSWERS = ScriptedModel([{"text": "Hi."}] * 9)
WAITS = tw.Tool(
    name="ask_outside",
    description="Ask.",
    kind="external",
    timeout=60.0,
    parameters={"type": "object", "properties": {}},
)


class OldFiles(MemoryFiles):
    """Files that were all stored long ago."""

    async def remove(self, digest: str, before: datetime) -> bool:
        return await super().remove(digest, before + BYTES_KEPT + timedelta(minutes=1))

    @property
    def count(self) -> int:
        return len(self._contents)


def file(text: str) -> Attachment:
    return Attachment(name="a.txt", mime_type="text/plain", data=base64.b64encode(text.encode()).decode())


async def said(rig: Rig, *files: Attachment) -> str:
    """Create a thread in which a message was answered."""
    thread = await rig.rt.threads.create("tester")
    await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Hello", files)).id, 10)
    return thread.id


async def test_the_bytes_of_files_go_with_the_last_thread_that_has_them() -> None:
    files = OldFiles()
    async with running(ANSWERS, files=files) as rig:
        first = await said(rig, file("own"), file("shared"))
        second = await said(rig, file("shared"))
        await rig.rt.threads.delete(first)
        [kept] = await rig.rt.files.list(second)
        assert await rig.rt.files.read(second, kept.path) == b"shared"
        assert files.count == 1
        await rig.rt.threads.delete(second)
        assert files.count == 0


async def test_young_bytes_stay_until_they_are_old_because_they_might_be_in_use() -> None:
    files = MemoryFiles()
    async with running(ANSWERS, files=files) as rig:
        first = await said(rig, file("young"))
        await rig.rt.threads.delete(first)
        second = await said(rig, file("young"))
        [kept] = await rig.rt.files.list(second)
        assert await rig.rt.files.read(second, kept.path) == b"young"
        [note] = await rig.store.retention.dropped_bytes("", 9)
        assert note.needed


async def test_a_run_that_waits_is_cancelled_only_if_one_says_so() -> None:
    model = ScriptedModel([call("ask_outside"), {"text": "Thanks."}])
    async with running(model, [WAITS]) as rig:
        run = await rig.send()
        with pytest.raises(ThreadBusy, match="Cancel it, or delete with cancel"):
            await rig.rt.threads.delete(run.thread_id)
        await rig.rt.threads.delete(run.thread_id, cancel=True)
        for gone in (
            rig.rt.threads.get(run.thread_id),
            rig.rt.runs.get(run.id),
            rig.rt.threads.delete(run.thread_id),
        ):
            with pytest.raises(NotFound):
                await gone
        assert await rig.rt.calls.list() == []


async def test_a_message_that_comes_just_before_the_end_keeps_its_thread() -> None:
    async with running(ANSWERS) as rig:
        thread = await said(rig)

        async def send(_: int, unit: Unit) -> None:
            if isinstance(unit, DropThread):
                rig.store.before = nothing
                await rig.rt.threads.send(thread, "Wait!")

        rig.store.before = send
        with pytest.raises(ThreadBusy):
            await rig.rt.threads.delete(thread)
        [run] = await rig.rt.runs.list(thread_id=thread, limit=1)
        assert (await rig.rt.runs.wait(run.id, 10)).status == "completed"


async def test_the_home_of_an_agent_stays_as_long_as_the_agent() -> None:
    async with running(ANSWERS) as rig:
        agent = await rig.rt.agents.save("scout", {"agent": {"system": "Go."}})
        await rig.rt.inboxes.trigger(agent.agent.id, "bell", {})
        home = home_thread_id_of(agent.agent.id)
        with pytest.raises(InvalidRequest, match="Delete the agent instead"):
            await rig.rt.threads.delete(home, cancel=True)
        await rig.rt.agents.delete(agent.agent.id)
        await rig.rt.threads.delete(home, cancel=True)
        with pytest.raises(NotFound):
            await rig.rt.threads.get(home)


async def test_a_journal_that_fails_after_the_deletion_does_not_take_it_back() -> None:
    async with running(ANSWERS) as rig:
        thread = await said(rig)

        async def fail(_: int, unit: Unit) -> None:
            if isinstance(unit, SweepThreads):
                rig.store.before = nothing
                raise StoreError("The disk is full.")

        rig.store.before = fail
        await rig.rt.threads.delete(thread)
        with pytest.raises(NotFound):
            await rig.rt.threads.get(thread)


async def test_a_follower_of_a_deleted_thread_gets_not_found() -> None:
    async with running(ANSWERS) as rig:
        thread = await said(rig)
        await rig.rt.threads.delete(thread)
        with pytest.raises(NotFound):
            await anext(rig.rt.threads.stream(thread, 0))


async def test_a_wake_that_comes_to_a_thread_as_it_is_deleted_is_dropped(journal: OpenStore) -> None:
    """Like the wake-up of a value that is set at that time; otherwise it would be due without end."""
    async with town(journal, Refusing(ManualClock(), None)) as here:
        now = here.clock.now()
        late = SetTimer(name="thr_gone", due=now)
        await here.store.commit(Apply(token="late", at=now, effects=(late,)))
        assert await here.store.due(now, 10)
        await here.motor.run_until_idle(20)
        assert await here.store.due(now, 10) == []
