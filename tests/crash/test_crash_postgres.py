"""The crash matrix on Postgres: the process dies before and after every commit, inside a tool, and again."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.child import CALLS
from tests.crash.dying import Witness
from tests.crash.processes import KILLED, Processes, commits, processes_of, sampled
from tests.crash.test_crash import FLAVOURS, UNITS, Journal, check, expected
from tests.postgres_server import fresh_database
from toolwright.adapters.store.postgres.connection import connect

pytestmark = pytest.mark.anyio

processes = processes_of("child")


class PostgresJournal(Journal):
    """The state in the database, read in advance."""

    def __init__(self, folder: Path, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        self._witness = Witness(folder / "witness")
        self._tables = tables

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._tables[query]


QUERIES = (
    "SELECT id FROM runs",
    "SELECT status FROM runs",
    "SELECT thread_id FROM wakes",
    "SELECT status FROM inbox",
    "SELECT n FROM events ORDER BY n",
    "SELECT status FROM calls",
    "SELECT role, body FROM messages ORDER BY seq",
    "SELECT id FROM calls ORDER BY position",
    "SELECT id, result FROM calls",
)


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    async with fresh_database() as found:
        yield found


async def journal(folder: Path, url: str) -> Journal:
    connection = await connect(url)
    tables = {query: [tuple(row) for row in await connection.fetch(query)] for query in QUERIES}
    await connection.close()
    return PostgresJournal(folder, tables)


async def run(processes: Processes, **order: Any) -> int:
    return await asyncio.to_thread(lambda: processes.run(**order))


async def test_an_undisturbed_run(processes: Processes, tmp_path: Path, url: str) -> None:
    assert await run(processes, action="start", folder=str(tmp_path), flavour="plain", url=url) == 0
    assert commits(tmp_path) == UNITS
    assert (await journal(tmp_path, url)).contents() == expected(interrupted=set())


@pytest.mark.parametrize("flavour", ["plain", "idempotent"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("unit", sampled(range(1, UNITS + 1)))
async def test_death_at_a_commit(
    processes: Processes, tmp_path: Path, url: str, unit: int, when: str, flavour: str
) -> None:
    order = {"folder": str(tmp_path), "flavour": flavour, "url": url}
    kill = {"unit": unit, "when": when}
    assert await run(processes, action="start", kill=kill, **order) == KILLED
    assert await run(processes, action="recover", **order) == 0
    check(await journal(tmp_path, url), flavour)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("call", range(1, CALLS + 1))
async def test_death_inside_a_tool(
    processes: Processes, tmp_path: Path, url: str, call: int, flavour: str
) -> None:
    order = {"folder": str(tmp_path), "flavour": flavour, "url": url}
    assert await run(processes, action="start", kill={"tool": call}, **order) == KILLED
    assert await run(processes, action="recover", **order) == 0
    left = await journal(tmp_path, url)
    check(left, flavour)
    assert left.begun()[left.call_ids()[call - 1]] == (1 if flavour == "plain" else 2)


@pytest.mark.parametrize("again", sampled(range(1, 6)))
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_second_death_during_the_recovery(
    processes: Processes, tmp_path: Path, url: str, when: str, again: int
) -> None:
    order = {"folder": str(tmp_path), "flavour": "plain", "url": url}
    assert await run(processes, action="start", kill={"unit": 5, "when": "after"}, **order) == KILLED
    second = await run(processes, action="recover", kill={"unit": again, "when": when}, **order)
    if second == KILLED:
        assert await run(processes, action="recover", **order) == 0
    check(await journal(tmp_path, url), "plain")
