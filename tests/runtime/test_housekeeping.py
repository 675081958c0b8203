"""Old events are deleted, recent ones stay, and a follower that starts too late receives an error."""

import asyncio
from datetime import datetime, timedelta

import pytest

from tests.motor.rig import Rig
from tests.play import Drain
from toolwright.adapters.memory import MemoryCipher, MemoryFiles
from toolwright.adapters.system import new_id
from toolwright.core.env.env import VariablesRequest
from toolwright.core.errors import Reset
from toolwright.core.journal.child_effects import OpenRequest
from toolwright.core.journal.units import Apply
from toolwright.core.ports import FileStore
from toolwright.core.threads.event import Topic
from toolwright.runtime.env import Environment, Keys
from toolwright.runtime.housekeeping import EVENTS_KEPT, Housekeeper, RetentionPeriods
from toolwright.runtime.threads.deletion import Deletion
from toolwright.runtime.threads.events import Events
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, MemoryStore

pytestmark = pytest.mark.anyio


class Tidied(MemoryFiles):
    """Records the time before which partial files are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.before: asyncio.Future[datetime] = asyncio.get_running_loop().create_future()

    async def tidy(self, before: datetime) -> int:
        self.before.set_result(before)
        return 0


def housekeeper(rig: Rig, files: FileStore, kept: RetentionPeriods | None = None) -> Housekeeper:
    store, clock = rig.store, rig.clock
    keys = Keys(store, Environment(MemoryCipher()), clock, new_id)
    deletion = Deletion(store, rig.motor.wake, MemoryBus(), files, clock, new_id)
    return Housekeeper(store, rig.motor, keys, files, clock, new_id, deletion, kept)


async def over(rig: Rig, thread_id: str) -> None:
    """Wait until the run that was posted to the thread has ended."""
    view = await rig.store.view(thread_id)
    assert view is not None
    assert view.run is not None
    drain = Drain(rig.store, thread_id, view.run)
    await drain.claim([each.event_id for each in view.inbox])
    await drain.end(rig.clock.now())


async def test_events_are_kept_for_seven_days() -> None:
    clock, bus = ManualClock(), MemoryBus()
    store = MemoryStore(bus.publish)
    rig = Rig(store, ManualMotor(store, clock), clock)
    await rig.motor.start(rig.drain, rig.nudge)
    for name in ("old", "young"):
        await rig.thread(name)
    await rig.post("old")
    await over(rig, "old")
    clock.advance(EVENTS_KEPT.total_seconds() - 60)
    await rig.post("young")
    await over(rig, "young")
    keeper = housekeeper(rig, MemoryFiles())
    assert await keeper.tidy() == 0
    clock.advance(120)
    assert await keeper.tidy() == 1
    events = Events(store, bus, rig.motor)
    assert await events.list(Topic(kind="thread", id="old")) == []
    assert len(await events.list(Topic(kind="thread", id="young"))) == 1
    with pytest.raises(Reset):
        await anext(aiter(events.follow(Topic(kind="thread", id="old"), after=1)))


async def test_what_killed_processes_left_among_the_files_is_taken_away_after_a_day() -> None:
    clock, files = ManualClock(), Tidied()
    store = MemoryStore(MemoryBus().publish)
    rig = Rig(store, ManualMotor(store, clock), clock)
    await rig.motor.start(rig.drain, rig.nudge)
    at_work = asyncio.create_task(housekeeper(rig, files).run())
    async with asyncio.timeout(30):
        assert await files.before == clock.now() - timedelta(days=1)
    at_work.cancel()


async def test_requests_for_values_that_have_expired_are_taken_away() -> None:
    clock, files = ManualClock(), Tidied()
    store = MemoryStore(MemoryBus().publish)
    rig = Rig(store, ManualMotor(store, clock), clock)
    await rig.motor.start(rig.drain, rig.nudge)
    await rig.thread("parent")
    for name, seconds in (("over", 0), ("open", 1)):
        asked = VariablesRequest(
            id=name, thread_id="parent", kind="child", agent="scout", required=(),
            expires_at=clock.now() + timedelta(seconds=seconds), created_at=clock.now(),
        )  # fmt: skip
        effect = OpenRequest(thread_id="parent", request=asked)
        await store.commit(Apply(token=name, at=clock.now(), effects=(effect,)))
    at_work = asyncio.create_task(housekeeper(rig, files).run())
    async with asyncio.timeout(30):
        await files.before  # its last action
    assert [each.id for each in await store.children.requests("parent")] == ["open"]
    at_work.cancel()
