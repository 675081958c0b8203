"""One journal under test: in memory, on SQLite, on Postgres."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.databases import sqlite_journal
from tests.postgres_server import fresh_database

from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.store.opening import open_postgres
from toolwright.core.journal.store import Store
from toolwright.core.threads.event import Event


@dataclass
class Journal:
    """A store, and the events that it has passed to the bus.

    Postgres commits by `several_sessions`, whose events of one thread can reach the bus before those of lower numbers;
    a follower reads them in the order of their numbers.
    """

    store: Store
    published: list[Event] = field(default_factory=list[Event])
    several_sessions: bool = False


@asynccontextmanager
async def _opened(kind: str, folder: Path) -> AsyncGenerator[Journal]:
    published: list[Event] = []
    if kind == "memory":
        yield Journal(MemoryStore(published.extend), published)
    elif kind == "sqlite":
        yield Journal(await sqlite_journal(folder / "journal.db", published.extend), published)
    else:
        async with fresh_database() as url:
            store = await open_postgres(url, published.extend)
            yield Journal(store, published, several_sessions=True)
            await store.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Journal]:
    """Each test runs on every store."""
    async with _opened(request.param, tmp_path) as opened:
        yield opened
        await opened.store.close()


@pytest.fixture
def store(journal: Journal) -> Store:
    """The store under test."""
    return journal.store
