"""A round of a channel continues despite broken rows of the journal: no agent is blocked by them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import toolwright as tw
from tests.databases import opened
from toolwright.core.agents.catalog import Catalog
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualClock, ManualMotor, MemoryBus, ScriptedModel
from toolwright.wiring.parts import DefaultParts

pytestmark = pytest.mark.anyio

CREW = ("michael", "jim", "dwight")
JIM = tw.Agent("jim", "p")
FAULTS = {
    "the message": ("UPDATE space_messages SET metadata = 'weird'", ["failed", "failed", "failed"]),
    "a member": (
        f"UPDATE members SET type = 'weird' WHERE entity_id = '{JIM.entity_id}'",
        ["failed", None, "failed"],
    ),
    "a home thread": (
        f"UPDATE threads SET state = 'weird' WHERE id = '{JIM.home_thread_id}'",
        ["processed", None, "processed"],
    ),
}


@pytest.mark.parametrize("broken", FAULTS)
async def test_a_round_goes_on_beside_a_broken_row(broken: str, tmp_path: Path) -> None:
    statement, expected = FAULTS[broken]
    bus, clock = MemoryBus(), ManualClock()
    store = await opened(f"sqlite:///{tmp_path}/journal.db", bus)
    motor = ManualMotor(store, clock)
    model = ScriptedModel([{"text": "."}])
    agents = [tw.Agent(name, tw.Prompt(name, "Be.", model=model), toolkits=["channels"]) for name in CREW]
    rt = Runtime(
        Catalog(agents=agents), DefaultParts(store=store, motor=motor, bus=bus, clock=clock), tw.Settings()
    )
    await rt.start()
    pam = await rt.entities.create(external_id="pam")
    await rt.spaces.create("General", id="general", members=[pam.id, *CREW], delivery="sequential")
    await rt.inboxes.trigger("jim", "clock")  # he has a home thread
    await motor.run_until_idle()
    await rt.spaces.say("general", pam.id, "Ideas?")
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as connection:
        connection.execute(statement)
    await motor.run_until_idle(200)
    heard = [await rt.inboxes.list(name) for name in CREW]
    statuses = [[each.status for each in events if each.type == "space_message"] for events in heard]
    assert statuses == [[each] if each else [] for each in expected]
    await rt.stop(0.0)
    await store.close()
