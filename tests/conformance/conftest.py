"""One journal under test: in memory, on SQLite, on Postgres."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.postgres_server import fresh_database

from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.core.journal.store import Store
from toolwright.core.threads.event import Event


@dataclass
class Journal:
    """A store, and the events that it has handed to the bus."""

    store: Store
    published: list[Event] = field(default_factory=list[Event])


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty journal, to copy for each test."""
    path = tmp_path_factory.mktemp("migrated") / "journal.db"
    upgrade_sqlite(path)
    return path


@asynccontextmanager
async def _opened(kind: str, folder: Path, migrated: Path) -> AsyncGenerator[Journal]:
    published: list[Event] = []
    if kind == "memory":
        yield Journal(MemoryStore(published.extend), published)
    elif kind == "sqlite":
        path = Path(shutil.copy(migrated, folder / "journal.db"))
        yield Journal(await open_sqlite(path, published.extend), published)
    else:
        async with fresh_database() as url:
            store = await open_postgres(url, published.extend)
            yield Journal(store, published)
            await store.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(
    request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path
) -> AsyncGenerator[Journal]:
    """Each test runs on every store."""
    async with _opened(request.param, tmp_path, migrated_file) as opened:
        yield opened
        await opened.store.close()


@pytest.fixture
def store(journal: Journal) -> Store:
    """The store under test."""
    return journal.store
