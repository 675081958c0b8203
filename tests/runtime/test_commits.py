"""The number of commits of a run, counted in SQLite's driver: only a COMMIT there counts."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.databases import create_file
from tests.runtime.rig import Rig, running
from tests.runtime.test_loop import BAD, add, calling, outside
from toolwright.adapters.store.sqlite.driver import SqliteDriver
from toolwright.adapters.store.sqlite.file import connect
from toolwright.adapters.store.store import SqlStore
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Park, Result, Unit
from toolwright.core.json_value import JSONObject
from toolwright.testing import MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio

DONE: JSONObject = {"text": "Done."}


class Count:
    """Counts the commits of the writing connection."""

    def __init__(self) -> None:
        self.commits = 0

    def open(self, path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.set_trace_callback(self._count)
        return connection

    def _count(self, statement: str) -> None:
        self.commits += statement == "COMMIT"


def quantity(path: Path, count: Count) -> Callable[[MemoryBus], Awaitable[Store]]:
    async def store(bus: MemoryBus) -> Store:
        create_file(path)
        return SqlStore(SqliteDriver(path, bus.publish, count.open))

    return store


async def undisturbed(rig: Rig, thread_id: str) -> None:
    """Send a message, and wait for the end of its run."""
    run = await rig.rt.runs.wait((await rig.rt.threads.send(thread_id, "Go")).id, 10)
    assert run.status == "completed"


async def with_a_wait(rig: Rig, thread_id: str) -> None:
    """The result is submitted as soon as the run is suspended, before the release of its thread, a separate commit."""

    async def answer(_: int, unit: Unit) -> None:
        if isinstance(unit, Park):
            [call] = await rig.rt.calls.list()
            await rig.rt.calls.submit(call.run_id, call.id, "here it is")

    rig.store.after = answer
    await undisturbed(rig, thread_id)


async def with_a_joined_message(rig: Rig, thread_id: str) -> None:
    """A message joins before the call's result is committed."""

    async def join(_: int, unit: Unit) -> None:
        if isinstance(unit, Result):
            await rig.rt.threads.send(thread_id, "And this")

    rig.store.before = join
    await undisturbed(rig, thread_id)


@pytest.mark.parametrize(
    ("turns", "course", "commits"),
    [
        pytest.param([calling("add", "add", "add"), DONE], undisturbed, 7, id="one answer with three calls"),
        pytest.param([DONE], undisturbed, 3, id="an answer without calls"),
        pytest.param([BAD, DONE], undisturbed, 5, id="three bad calls around a good one"),
        pytest.param([calling("nothing", "nothing"), DONE], undisturbed, 4, id="bad calls alone"),
        pytest.param(
            [calling("ask_outside", args={}), DONE],
            with_a_wait,
            7,
            id="a wait, parked, submitted, claimed",
        ),
        pytest.param([calling("add"), DONE], with_a_joined_message, 6, id="a message that joins"),
    ],
)
async def test_a_run_takes_as_many_commits_as_it_must(
    tmp_path: Path, turns: list[JSONObject], course: Callable[[Rig, str], Awaitable[None]], commits: int
) -> None:
    count = Count()
    store = quantity(tmp_path / "t.db", count)
    async with running(ScriptedModel(turns), [add, outside], store=store, inline_wait=0.0) as rig:
        thread = await rig.rt.threads.create("tester")
        await rig.rt.health.check()  # the housekeeping at the start has ended, so its commit is not counted
        before = count.commits
        await course(rig, thread.id)
        while await rig.store.wake(thread.id) is not None:  # noqa: ASYNC110 - until it is released permanently
            await asyncio.sleep(0)
        assert count.commits - before == commits
