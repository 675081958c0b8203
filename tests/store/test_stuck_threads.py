"""Threads that an older version left stuck because of a request that was too long continue."""

import gzip
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from tests.databases import OpenStore
from tests.postgres_server import fresh_database
from tests.runtime.narrow import Narrow, bytes_of, check_valid

import toolwright as tw
from toolwright.adapters.store import migrate
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.postgres.opening import upgrade_postgres
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.threads.run import Run
from toolwright.runtime.runtime import Runtime
from toolwright.testing import by_hand_on

pytestmark = pytest.mark.anyio

WRITTEN, REVISION = Path(__file__).parent / "journal_stuck.sql.gz", "0017"
LIMIT = 12_000  # bytes that Michael's and the talker's model accept


def answer(request: ModelRequest) -> ModelResponse:
    """Answer in the channel if the last message arrived there."""
    last = request.messages[-1]
    if last.role != "user" or "spaceId: g" not in last.content:
        return ModelResponse(text="I see.")
    arguments = f'{{"channelId": "g", "text": "{request.who[0]} goes on"}}'
    return ModelResponse(calls=(ModelCall(id="c", name="send_message", arguments=arguments),))


def app(narrow: Narrow, wide: Narrow) -> tw.App:
    """Return the app whose threads are in the journal."""
    prompts = [
        tw.Prompt("michael", "You are Michael.", model=narrow),
        tw.Prompt("jim", "You are Jim.", model=wide),
    ]
    talker = tw.Agent("talker", tw.Prompt("talker", "You talk.", model=narrow))
    return tw.App(agents=[*[tw.Agent(each.name, each, toolkits=["channels"]) for each in prompts], talker])


async def unfinished(rt: Runtime) -> Sequence[Run]:
    return [each for each in await rt.runs.list(limit=100) if not each.over]


def write_sqlite(path: Path) -> None:
    """Write the journal into a file, at its revision."""
    with closing(sqlite3.connect(path)) as file:
        file.executescript(gzip.decompress(WRITTEN.read_bytes()).decode())


def copy_to_postgres(path: Path, connection: Connection) -> None:
    """Copy the journal of the file into an empty database, at its revision."""
    command.upgrade(migrate.config(connection), REVISION)
    schema = MetaData()
    schema.reflect(connection)
    with closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        for table in schema.tables.values():
            connection.execute(table.delete())  # migrations have inserted rows as well
            rows = [dict(row) for row in file.execute(f"SELECT * FROM {table.name}")]
            if rows:
                connection.execute(table.insert(), rows)


@asynccontextmanager
async def upgraded(kind: str, path: Path) -> AsyncGenerator[OpenStore]:
    """Yield a function that opens the journal on a database of that kind, after the upgrade."""
    write_sqlite(path)
    if kind == "sqlite":
        upgrade_sqlite(path)
        yield lambda bus: open_sqlite(path, bus.publish)
        return
    async with fresh_database(migrated=False) as url:
        engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: connect(url))
        async with engine.begin() as connection:
            await connection.run_sync(lambda each: copy_to_postgres(path, each))
        await engine.dispose()
        await upgrade_postgres(url)
        yield lambda bus: open_postgres(url, bus.publish)


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[OpenStore]:
    """A function that opens the journal."""
    async with upgraded(request.param, tmp_path / "journal.db") as opening:
        yield opening


@pytest.mark.parametrize("says", [True, False])
async def test_stuck_threads_go_on_after_the_upgrade(says: bool, store: OpenStore) -> None:
    narrow = Narrow(answer, limit=LIMIT, says=says, counting=bytes_of)
    wide = Narrow(answer, limit=10**9, name="test:wide")
    async with by_hand_on(store, app(narrow, wide)) as (rt, motor):
        assert len(await unfinished(rt)) == 2  # Michael's, which is retried repeatedly, and the one behind it
        await motor.run_timers()
        await motor.run_until_idle(500)
        assert await unfinished(rt) == []
        said = [each.message.content for each in await rt.spaces.messages("g", 100)]
        assert {"michael goes on", "jim goes on"} <= {*said}
        for name in ("michael", "jim"):
            assert {each.status for each in await rt.inboxes.list(name)} == {"processed"}
        [stuck] = [
            each for each in await rt.threads.list() if each.agent == (await rt.agents.get("talker")).id
        ]
        before = await rt.threads.messages(stuck.id, 100)
        for number in range(3):
            run = await rt.threads.send(stuck.id, f"And now? {number}")
            await motor.run_until_idle(500)
            assert (await rt.runs.get(run.id)).status == "completed"
        assert (await rt.threads.messages(stuck.id, 100))[: len(before)] == before
    assert narrow.refused and narrow.asked
    for request in narrow.asked:
        check_valid(request.messages)
