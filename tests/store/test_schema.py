"""The migrations create the tables that the code defines, once, even if many processes start at once."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from tests.postgres_server import fresh_database

from toolwright.adapters.store.migrate import config, sqlite_engine
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.postgres.opening import upgrade_postgres
from toolwright.adapters.store.schema import REVISIONS, upgrade_sqlite
from toolwright.adapters.store.sql.readers import all_tables
from toolwright.core.errors import StoreError

pytestmark = pytest.mark.anyio


UNUSED = {"plans": ("relative",)}
"""Columns that this version neither reads nor writes, by table. The next version drops them (decision 35)."""


def is_compared(name: str | None, kind: str, parents: dict[str, str | None]) -> bool:
    """SQLAlchemy does not know the index of passages: on SQLite it consists of separate tables."""
    if kind == "column" and name in UNUSED.get(parents["table_name"] or "", ()):
        return False
    return not (name or "").startswith("passage_index")


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"include_name": is_compared})
    return list(compare_metadata(context, all_tables()))


def created(engine: Engine) -> set[str]:
    """Return the CREATE statements of a database, as SQLite stores them; it quotes changed names."""
    with engine.connect() as connection:
        query = (
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'alembic_version'"
            " AND name NOT LIKE 'passage_index%'"
        )
        statements = {" ".join(row[0].replace('"', "").split()) for row in connection.exec_driver_sql(query)}
    for table, columns in UNUSED.items():
        for each in columns:
            statements = {
                re.sub(rf", {each} [^,]*", "", statement) if f"TABLE {table} " in statement else statement
                for statement in statements
            }
    return statements


async def test_on_sqlite_the_migrated_schema_is_the_known_one(tmp_path: Path):
    upgrade_sqlite(tmp_path / "journal.db")
    engine = sqlite_engine(tmp_path / "journal.db")
    with engine.connect() as connection:
        assert differences(connection) == []
    plain = create_engine("sqlite://")
    all_tables().create_all(plain)
    assert created(engine) == created(plain)
    engine.dispose()
    plain.dispose()


async def test_on_postgres_the_migrated_schema_is_the_known_one():
    async with fresh_database(migrated=False) as url:
        await upgrade_postgres(url)

        async def creator() -> object:
            return await connect(url)

        engine = create_async_engine("postgresql+asyncpg://", async_creator=creator)
        async with engine.connect() as connection:
            assert await connection.run_sync(differences) == []
        await engine.dispose()


async def test_the_revisions_that_the_code_knows_are_those_of_the_files():
    scripts = ScriptDirectory.from_config(config())
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)


async def test_many_processes_may_start_at_once_on_sqlite(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from toolwright.adapters.store.schema import upgrade_sqlite;"
        "upgrade_sqlite(Path(sys.argv[1]))"
    )
    path = tmp_path / "journal.db"
    command = [sys.executable, "-c", code, str(path)]
    starts = [asyncio.to_thread(subprocess.run, command, check=True) for _ in range(3)]
    await asyncio.gather(*starts)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(REVISIONS[-1],)]


async def test_many_may_start_at_once_on_postgres():
    async with fresh_database(migrated=False) as url:
        stores = await asyncio.gather(*(open_postgres(url, lambda _: None) for _ in range(4)))
        for store in stores:
            await store.close()


async def test_a_database_that_is_current_is_opened_without_alembic(tmp_path: Path):
    path = tmp_path / "journal.db"
    upgrade_sqlite(path)
    code = (
        "import sys; from pathlib import Path; from toolwright.adapters.store.schema import upgrade_sqlite;"
        "upgrade_sqlite(Path(sys.argv[1])); assert 'alembic' not in sys.modules"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == 0


async def test_a_database_of_newer_code_is_refused(tmp_path: Path):
    path = tmp_path / "journal.db"
    upgrade_sqlite(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE compatibility SET least = '9999'")
    with pytest.raises(StoreError, match="'9999'"):
        await open_sqlite(path, lambda _: None)
    async with fresh_database() as url:
        admin = await connect(url)
        await admin.execute("UPDATE alembic_version SET version_num = '9999'")
        await admin.execute("UPDATE compatibility SET least = '9999'")
        await admin.close()
        with pytest.raises(StoreError, match="'9999'"):
            await open_postgres(url, lambda _: None)


async def test_files_of_their_own_are_made_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"journal_{n}.db" for n in range(6)]
    await asyncio.gather(*[asyncio.to_thread(upgrade_sqlite, path) for path in paths])
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [
                (REVISIONS[-1],)
            ]
