"""Processes that a test starts and lets die, their shared journal, and the state that they leave in it."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet  # the type of `pytest.param` has no public name

from tests.crash.forks import Order
from tests.databases import database
from toolwright.adapters.store.postgres.connection import connect

KILLED = -9
INTERRUPTED = "Interrupted: the process stopped while this call was running; its effect is unknown."


@dataclass
class Processes:
    """Starts processes of one module through the fork server."""

    server: "subprocess.Popen[str]"
    module: str

    def run(self, **order: Any) -> int:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps({**order, "module": self.module}) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())


@contextmanager
def fork_server() -> Generator["subprocess.Popen[str]"]:
    """Run the fork server."""
    command = [sys.executable, "-m", "tests.crash.forks"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield server


def processes_of(module: str) -> Callable[..., Processes]:
    """Return a fixture: the processes that execute `run` of this module of `tests.crash`."""

    @pytest.fixture(name="processes")
    def processes(forks: "subprocess.Popen[str]") -> Processes:
        return Processes(forks, module)

    return processes


def rows(folder: Path, query: str) -> list[Any]:
    """Return the result of a query on the SQLite journal in the folder."""
    with closing(sqlite3.connect(folder / "journal.db")) as connection:
        return connection.execute(query).fetchall()


def commits(folder: Path) -> int:
    """Return the number of commits of the last process that was not killed."""
    return int((folder / "commits").read_text())


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A folder, and a journal of either kind, shared by consecutive processes."""

    processes: Processes
    folder: Path
    url: str

    async def run(self, **order: Any) -> int:
        """Execute the order in a process. Return its exit status."""
        where: Order = {"folder": str(self.folder)}
        if not self.url.startswith("sqlite"):  # SQLite's file is in the folder
            where["url"] = self.url
        return await asyncio.to_thread(lambda: self.processes.run(**where, **order))

    def commits(self) -> int:
        """Return the number of commits of the last process that was not killed."""
        return commits(self.folder)

    async def rows(self, query: str) -> list[Any]:
        """Return the current result of a query on the journal, as tuples; JSON as text."""
        if self.url.startswith("sqlite"):
            return rows(self.folder, query)
        connection = await connect(self.url)
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()


@asynccontextmanager
async def scene_of(kind: str, processes: Processes, folder: Path) -> AsyncGenerator[Scene]:
    """An empty scene, with a journal of that kind."""
    async with database(kind, folder) as url:
        yield Scene(processes=processes, folder=folder, url=url)


def sampled(points: Iterable[int], *before: str) -> list[ParameterSet]:
    """Return the points of a crash matrix: a sample of them runs in `make test`, the others are `exhaustive`.

    Common parameters, such as a `kind` of journal, precede each point.
    """
    return [pytest.param(*before, point, marks=[pytest.mark.matrix]) for point in points]


def kill_points(*, sqlite: range, postgres: range) -> list[ParameterSet]:
    """Return the units at which a process dies, for each `kind` of journal."""
    return [*sampled(sqlite, "sqlite"), *sampled(postgres, "postgres")]


async def assert_answered(scene: Scene, threads: Iterable[str], *never: str) -> None:
    """Check that every call of these threads has one answer, and that no message contains any of the texts `never`."""
    for thread_id in threads:
        said = await scene.rows(
            f"SELECT role, body FROM messages WHERE thread_id = '{thread_id}' ORDER BY seq"
        )
        bodies = [(role, json.loads(body)) for role, body in said]
        asked = [call[0] for _, body in bodies for call in body.get("calls", [])]
        answered = [body["call"][0] for role, body in bodies if role == "tool"]
        assert sorted(asked) == sorted(answered)
        assert not [body for _, body in bodies if any(text in str(body) for text in never)]
