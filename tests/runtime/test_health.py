"""Health: the journal and the files are tested by a write, once a second for any number of callers."""

import asyncio
from pathlib import Path

import pytest

from toolwright.adapters.files import open_folder
from toolwright.adapters.memory import MemoryFiles
from toolwright.adapters.motor.manual import ManualClock
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.system import new_id
from toolwright.core.errors import StoreError
from toolwright.core.journal.units import Committed, Conflict, Probe, Unit
from toolwright.runtime.health import FRESH, SELDOM, Health

pytestmark = pytest.mark.anyio


class CountedStore(MemoryStore):
    """Counts commits, and blocks them while its gate is closed."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.commits = 0
        self.let_through = asyncio.Event()
        self.let_through.set()

    async def commit(self, unit: Unit) -> Committed | Conflict:
        assert isinstance(unit, Probe)
        self.commits += 1
        await self.let_through.wait()
        return await super().commit(unit)


class CountedFiles(MemoryFiles):
    """Counts its probes, which fail while there is a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.probes = 0
        self.fault: str | None = None

    async def probe(self) -> None:
        self.probes += 1
        if self.fault is not None:
            raise StoreError(self.fault)


async def test_all_who_ask_at_once_wait_for_one_answer() -> None:
    store, files = CountedStore(), CountedFiles()
    health = Health(store, files, ManualClock(), new_id)
    store.let_through.clear()
    async with asyncio.TaskGroup() as callers:
        for _ in range(50):
            callers.create_task(health.check())
        await asyncio.sleep(0)
        store.let_through.set()
    assert (store.commits, files.probes) == (1, 1)


async def test_an_answer_is_shared_for_a_second() -> None:
    store, files, clock = CountedStore(), CountedFiles(), ManualClock()
    health = Health(store, files, clock, new_id)
    await health.check()
    clock.advance(FRESH * 0.9)
    await health.check()
    assert (store.commits, files.probes) == (1, 1)
    clock.advance(FRESH * 0.1)
    files.fault = "The files are full."
    for _ in range(3):
        with pytest.raises(StoreError, match="The files are full"):
            await health.check()
    assert (store.commits, files.probes) == (2, 2)
    files.fault = None
    clock.advance(FRESH)
    await health.check()


async def test_both_errors_are_reported() -> None:
    store, files = CountedStore(), CountedFiles()
    files.fault = "The files are full."
    health = Health(store, files, ManualClock(), new_id)
    await store.close()
    with pytest.raises(StoreError, match=r"^The (?!files).*\. The files are full\.$"):
        await health.check()


async def test_files_that_cannot_be_written_are_named() -> None:
    health = Health(CountedStore(), open_folder(Path("/proc/files")), ManualClock(), new_id)
    with pytest.raises(StoreError, match="The files folder '/proc/files' cannot be written"):
        await health.check()


async def test_a_node_without_a_heartbeat_is_healthy_and_not_ready() -> None:
    reason: list[str | None] = [None]
    health = Health(CountedStore(), CountedFiles(), ManualClock(), new_id, unready=lambda: reason[0])
    await health.check_ready()
    reason[0] = "This node of the cluster cannot send a heartbeat at the moment."
    await health.check()
    with pytest.raises(StoreError, match="This node of the cluster cannot send a heartbeat at the moment"):
        await health.check_ready()


async def test_that_no_process_executes_runs_is_a_warning_and_looked_for_seldom() -> None:
    clock, looks = ManualClock(), list[str]()

    async def look() -> str | None:
        looks.append("look")
        return "No living process." if len(looks) == 1 else None

    health = Health(CountedStore(), CountedFiles(), clock, new_id, look_for_worker=look)
    assert await health.warning() == await health.warning() == "No living process."
    await health.check_ready()
    clock.advance(SELDOM)
    assert (await health.warning(), len(looks)) == (None, 2)


async def test_a_look_for_processes_that_fails_changes_nothing() -> None:
    async def look() -> str | None:
        raise StoreError("The journal is away.")

    health = Health(CountedStore(), CountedFiles(), ManualClock(), new_id, look_for_worker=look)
    assert await health.warning() is None
