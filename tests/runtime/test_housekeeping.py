"""Old events are deleted, young ones stay, and a follower that comes too late is told."""

import pytest

from tests.motor.rig import Rig
from toolwright.adapters.cipher.memory import MemoryCipher
from toolwright.adapters.system import new_id
from toolwright.core.errors import Reset
from toolwright.core.event import Topic
from toolwright.runtime.env import Environment
from toolwright.runtime.follow import Events
from toolwright.runtime.housekeeping import EVENTS_KEPT, Housekeeper
from toolwright.runtime.keys import Keys
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, MemoryStore

pytestmark = pytest.mark.anyio


async def test_events_are_kept_for_seven_days() -> None:
    clock, bus = ManualClock(), MemoryBus()
    store = MemoryStore(bus.publish)
    rig = Rig(store, ManualMotor(store, clock), clock)
    await rig.motor.start(rig.drain, rig.nudge)
    for name in ("old", "young"):
        await rig.thread(name)
    await rig.post("old")
    clock.advance(EVENTS_KEPT.total_seconds() - 60)
    await rig.post("young")
    keys = Keys(store, Environment(MemoryCipher()), clock, new_id)
    keeper = Housekeeper(store, rig.motor, keys, clock, new_id)
    assert await keeper.tidy() == 0
    clock.advance(120)
    assert await keeper.tidy() == 1
    events = Events(store, bus, rig.motor)
    assert await events.list(Topic(kind="thread", id="old")) == []
    assert len(await events.list(Topic(kind="thread", id="young"))) == 1
    with pytest.raises(Reset):
        await anext(aiter(events.follow(Topic(kind="thread", id="old"), after=1)))
