"""Migrations with data: rows of an older version are read unchanged, and its runs continue."""

import asyncio
import os
import re
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from tests.forks import Forks
from tests.kit import call
from tests.postgres_server import fresh_database

import toolwright as tw
from toolwright.adapters.store import migrate, schema
from toolwright.adapters.store.postgres.connection import connect
from toolwright.core.errors import StoreError
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel
from toolwright.wiring import upkeep

pytestmark = pytest.mark.anyio

WRITTEN = Path(__file__).parent / "journal_0001.sql"
NEW_TABLES = {"files", "env", "entities", "mcp_tasks", "mcp_definitions"}


def app() -> tw.App:
    """Return the app whose runs are in `journal_0001.sql`."""

    @tw.tool(description="Add.")
    async def add(a: int, b: int) -> int:
        return a + b

    ask = tw.Tool(
        name="ask",
        description="Ask them.",
        kind="external",
        parameters={"type": "object", "properties": {}},
    )
    adding = ScriptedModel([call("add", a=1, b=2), {"text": "It's 3."}])
    asking = ScriptedModel([call("ask"), {"text": "They said so."}])
    return tw.App(
        agents=[
            tw.Agent("worker", tw.Prompt("w", "Work.", model=adding, tools=[add])),
            tw.Agent("asker", tw.Prompt("a", "Ask.", model=asking, tools=[ask])),
        ]
    )


@pytest.fixture(params=["sqlite", "postgres"])
async def old(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    """Yield the URL of a database at revision 0001, with its rows."""
    if request.param == "postgres":
        async with fresh_database(migrated=False) as url:
            await in_postgres(url, as_of_old)
            yield url
        return
    engine = migrate.sqlite_engine(tmp_path / "journal.db")
    with engine.begin() as connection:
        as_of_old(connection)
    engine.dispose()
    yield f"sqlite:///{tmp_path / 'journal.db'}"


def as_of_old(connection: Connection) -> None:
    command.upgrade(migrate.config(connection), "0001")
    for statement in WRITTEN.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.exec_driver_sql(statement)


async def migrated(url: str, revision: str) -> None:
    """Check that the database is at that revision."""

    def upgrade(connection: Connection) -> None:
        command.upgrade(migrate.config(connection), revision)

    if not url.startswith("sqlite"):
        await in_postgres(url, upgrade)
        return
    engine = migrate.sqlite_engine(Path(url.removeprefix("sqlite:///")))
    with engine.begin() as connection:
        upgrade(connection)
    engine.dispose()


async def in_postgres(url: str, act: Callable[[Connection], None]) -> None:
    engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: connect(url))
    async with engine.begin() as connection:
        await connection.run_sync(act)
    await engine.dispose()


async def execute(url: str, *statements: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            for statement in statements:
                file.execute(statement)
        return

    def run_all(connection: Connection) -> None:
        for statement in statements:
            connection.execute(text(statement))

    await in_postgres(url, run_all)


async def tables(url: str) -> set[str]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection = await connect(url)
    found = await connection.fetch("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    return {row[0] for row in found}


async def test_what_an_older_version_wrote_is_read_the_same_and_its_run_goes_on(old: str) -> None:
    settings = tw.Settings(database_url=old)
    assert await upkeep.revision(settings) == "0001"
    async with asyncio.timeout(30), app().runtime(settings) as rt:
        assert await upkeep.revision(settings) == upkeep.HEAD
        done, waiting = await rt.threads.list()
        said = [(message.role, message.content) for message in await rt.threads.messages(done.id, 100)]
        assert said == [("user", "Add it up"), ("assistant", ""), ("tool", "3"), ("assistant", "It's 3.")]
        [over] = await rt.runs.list(thread_id=done.id)
        assert (over.status, over.output, over.step_count) == ("completed", "It's 3.", 2)
        events = await rt.events.list(Topic(kind="thread", id=done.id))
        assert [event.n for event in events] == list(range(1, done.ev + 1))
        [call] = await rt.calls.list()
        assert await rt.calls.submit(call.run_id, call.id, "yes") == "inline"
        run = await rt.runs.wait(call.run_id)
        assert (run.status, run.output) == ("completed", "They said so.")
        again = await rt.threads.send(done.id, "And again")
        assert (await rt.runs.wait(again.id)).status == "completed"
        assert len(await rt.threads.messages(waiting.id, 100)) == 4


async def test_a_failing_migration_leaves_the_old_schema_and_may_be_tried_again(old: str) -> None:
    settings = tw.Settings(database_url=old)
    await execute(old, "CREATE TABLE entities (in_the_way INTEGER)")
    before = await tables(old)
    with pytest.raises(StoreError, match="cannot be migrated"):
        await upkeep.upgrade(settings)
    assert await upkeep.revision(settings) == "0001"
    assert await tables(old) == before
    await execute(old, "DROP TABLE entities")
    await upkeep.upgrade(settings)
    assert await tables(old) >= NEW_TABLES


class FullAtCommit(sqlite3.Connection):
    """A connection to a file whose disk is full when a transaction is committed."""

    def commit(self) -> None:
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("place", ["connect", "commit"])
async def test_a_file_that_cannot_be_written_during_its_migration_is_reported_in_words(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_to_full_disk(path: Path) -> sqlite3.Connection:
        if place == "connect":
            raise sqlite3.OperationalError("disk I/O error")
        return sqlite3.connect(path, isolation_level=None, factory=FullAtCommit)

    path = tmp_path / "full.db"
    with monkeypatch.context() as full:
        full.setattr(migrate, "connect", connect_to_full_disk)
        with pytest.raises(StoreError, match="cannot be migrated, and stays as it was: disk I/O error"):
            schema.upgrade_sqlite(path)
    schema.upgrade_sqlite(path)
    assert schema.sqlite_revision(path)[0] == schema.HEAD


async def test_a_database_that_newer_code_has_migrated_is_refused(old: str) -> None:
    await execute(old, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="'9999'"):
        await upkeep.upgrade(tw.Settings(database_url=old))


async def as_of_newer(url: str, least: str) -> None:
    """Migrate the database as a newer version would: with one more column in each table, and one more table."""
    await upkeep.upgrade(tw.Settings(database_url=url))
    more = [
        f"ALTER TABLE {table} ADD COLUMN later INTEGER DEFAULT 0"
        for table in sorted(await tables(url))
        if not table.startswith(("alembic", "sqlite", "passages_", "passage_index"))
    ]
    await execute(
        url,
        *more,
        "CREATE TABLE later (id INTEGER)",
        "UPDATE alembic_version SET version_num = '9999'",
        f"UPDATE compatibility SET least = '{least}'",
    )


async def test_a_database_that_newer_code_has_only_added_to_is_used_as_before(old: str) -> None:
    settings = tw.Settings(database_url=old)
    await as_of_newer(old, upkeep.MIN_REVISION)
    assert await upkeep.revision(settings) == await upkeep.upgrade(settings) == "9999"
    assert upkeep.steps("9999") == []
    async with asyncio.timeout(30), app().runtime(settings) as rt:
        done, _ = await rt.threads.list()
        [call] = await rt.calls.list()
        assert await rt.calls.submit(call.run_id, call.id, "yes") == "inline"
        assert (await rt.runs.wait(call.run_id)).output == "They said so."
        again = await rt.threads.send(done.id, "And again")
        assert (await rt.runs.wait(again.id)).status == "completed"


async def test_a_database_that_newer_code_has_changed_is_refused(old: str) -> None:
    await as_of_newer(old, "9999")
    settings = tw.Settings(database_url=old)
    for act in (
        lambda: upkeep.upgrade(settings),
        lambda: upkeep.revision(settings),
        app().runtime(settings).__aenter__,
    ):
        with pytest.raises(StoreError, match="'9999', which this version of toolwright does not know"):
            await act()


async def test_a_node_upgrades_no_database_that_older_nodes_may_use(tmp_path: Path) -> None:
    async with fresh_database(migrated=False) as url:
        settings = tw.Settings(database_url=url, cluster="postgres", files_url=str(tmp_path))
        async with app().runtime(settings):
            pass  # it creates the tables of an empty database
        await execute(url, "DROP TABLE compatibility", "UPDATE alembic_version SET version_num = '0023'")
        with pytest.raises(StoreError, match=r"at revision '0023', .* run `toolwright db upgrade` once"):
            async with app().runtime(settings):
                pass
        assert await upkeep.revision(settings) == "0023"


def test_migrations_that_leave_older_code_running_only_add_but_for_indexes() -> None:
    versions = Path(migrate.__file__).parent / "migrations" / "versions"
    for each in schema.REVISIONS[schema.REVISIONS.index(schema.MIN_REVISION) + 1 :]:
        [written] = versions.glob(f"{each}_*.py")
        calls = set(re.findall(r"\bop\.(\w+)\(", written.read_text(encoding="utf-8")))
        assert calls <= {"create_table", "add_column", "create_index", "drop_index"}, (
            f"{each}: set MIN_REVISION to it"
        )


async def test_processes_that_migrate_at_once_do_not_meet(old: str, commands: Forks, tmp_path: Path) -> None:
    environ = {**os.environ, "TOOLWRIGHT_DATABASE_URL": old}
    with (tmp_path / "said").open("wb") as said:
        streams = [said.fileno()] * 3
        upgrades = [commands.start(["db", "upgrade"], tmp_path, environ, streams) for _ in range(3)]
        ends = [await asyncio.to_thread(one.wait, 60) for one in upgrades]
    assert ends == [0, 0, 0], (tmp_path / "said").read_text()
    assert await upkeep.revision(tw.Settings(database_url=old)) == upkeep.HEAD


async def test_a_space_from_before_there_was_an_order_wakes_its_agents_all_at_once(old: str) -> None:
    await migrated(old, "0008")
    fields = "id, kind, metadata, seq, revision, created_at, updated_at"
    await execute(old, f"INSERT INTO spaces ({fields}) VALUES ('tea', 'public', '{{}}', 0, 0, 1, 1)")
    async with asyncio.timeout(30), app().runtime(tw.Settings(database_url=old)) as rt:
        assert (await rt.spaces.get("tea")).delivery == "all"
        changed = await rt.spaces.update("tea", delivery="sequential")
        assert (changed.delivery, (await rt.spaces.get("tea")).delivery) == ("sequential", "sequential")
