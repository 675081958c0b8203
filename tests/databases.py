"""Databases for tests: each kind that processes share."""

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.postgres_server import fresh_database
from toolwright.adapters.store.engine.outcome import Publish
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.core.journal.store import Store
from toolwright.testing import MemoryBus

OpenStore: TypeAlias = Callable[[MemoryBus], Awaitable[Store]]


@asynccontextmanager
async def database(kind: str, folder: Path) -> AsyncGenerator[str]:
    """Yield the URL of an empty database of that kind."""
    if kind == "postgres":
        async with fresh_database() as url:
            yield url
    else:
        yield f"sqlite:///{folder / 'journal.db'}"


async def opened(url: str, bus: MemoryBus) -> Store:
    """Open the journal at that URL."""
    if url.startswith("sqlite:///"):
        return await sqlite_journal(Path(url.removeprefix("sqlite:///")), bus.publish)
    return await open_postgres(url, bus.publish)


async def sqlite_journal(path: Path, publish: Publish) -> Store:
    """Open the journal in that file. A missing one is a copy of an empty one, which takes a twentieth of the time."""
    create_file(path)
    return await open_sqlite(path, publish)


def prepare(url: str) -> None:
    """Create the empty journal at that URL, if it is a file."""
    if url.startswith("sqlite:///"):
        create_file(Path(url.removeprefix("sqlite:///")))


def create_file(path: Path) -> None:
    """Create the SQLite file of an empty journal, if it is missing."""
    if not path.exists():
        path.write_bytes(_empty_file())


@cache
def _empty_file() -> bytes:
    """Return the content of an empty journal's SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        upgrade_sqlite(path)
        return path.read_bytes()


@asynccontextmanager
async def stores(kind: str, folder: Path) -> AsyncGenerator[OpenStore]:
    """Yield a function that opens a journal of that kind, including `memory`."""
    if kind == "memory":

        async def in_memory(bus: MemoryBus) -> Store:
            return MemoryStore(bus.publish)

        yield in_memory
        return
    async with database(kind, folder) as url:
        yield lambda bus: opened(url, bus)


def store_on(*kinds: str) -> Callable[..., AsyncGenerator[OpenStore]]:
    """Return a fixture: a function that opens a journal, for each of these kinds in turn."""

    @pytest.fixture(params=kinds)
    async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
        async with stores(request.param, tmp_path) as opening:
            yield opening

    return store
