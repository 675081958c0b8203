"""One journal under test: in memory, on SQLite, on Postgres."""

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from tests.postgres_server import fresh_database

from toolwright.adapters.store.memory import MemoryStore
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.core.event import Event
from toolwright.core.ports import Store


@dataclass
class Journal:
    """A store, and the events that it has handed to the bus."""

    store: Store
    published: list[Event] = field(default_factory=list[Event])


@cache
def _migrated_file() -> Path:
    """An empty journal, to copy for each test."""
    path = Path(tempfile.mkdtemp(prefix="toolwright-sqlite-")) / "journal.db"
    upgrade_sqlite(path)
    return path


@asynccontextmanager
async def _opened(kind: str, folder: Path) -> AsyncGenerator[Journal]:
    published: list[Event] = []
    if kind == "memory":
        yield Journal(MemoryStore(published.extend), published)
    elif kind == "sqlite":
        path = Path(shutil.copy(_migrated_file(), folder / "journal.db"))
        yield Journal(await open_sqlite(path, published.extend), published)
    else:
        async with fresh_database() as url:
            store = await open_postgres(url, published.extend)
            yield Journal(store, published)
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
