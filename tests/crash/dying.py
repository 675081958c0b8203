"""Parts of a process that kills itself: the kill, a record outside the database, an app on a journal that kills."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tests.crash.forks import Order
from tests.databases import opened
from toolwright.adapters.cipher import KeyFileCipher
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.locks import FileLock
from toolwright.adapters.store.postgres.locks import PostgresLock
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.catalog import Catalog
from toolwright.core.journal.retention import Prune
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, Unit
from toolwright.core.mcp.servers import McpServers
from toolwright.core.ports import Clock, JournalLock
from toolwright.core.tools.function import FunctionExecutor
from toolwright.core.tools.pipeline import Executor
from toolwright.core.tools.tool import Kind
from toolwright.runtime.runtime import Runtime
from toolwright.testing import MemoryBus
from toolwright.wiring.executors import LazyMcp
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

FUNCTIONS: Mapping[Kind, Executor] = {"function": FunctionExecutor()}


def die() -> NoReturn:
    """Die as in a power cut: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class Witness:
    """Records events outside the database; each line is synced before the process continues."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, *words: str) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, f"{' '.join(words)} {os.getpid()}\n".encode())
        os.fsync(file)
        os.close(file)

    def lines(self) -> list[list[str]]:
        if not self._path.exists():
            return []
        return [line.split() for line in self._path.read_text().splitlines()]


class KillingStore:
    """Kills its process before or after the n-th unit; `count` is the number of started units.

    If `kill` names an `effect`, only the units with an effect of that name are counted.
    """

    def __init__(self, inner: Store, kill: dict[str, Any]) -> None:
        self._inner = inner
        self._kill = kill
        self._chosen = self.count = 0

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if isinstance(unit, Prune):
            return await self._inner.commit(unit)
        self.count += 1
        moment = self._moment(unit)
        if moment == "before":
            die()
        answer = await self._inner.commit(unit)
        if moment == "after":
            die()
        return answer

    def _moment(self, unit: Unit) -> str | None:
        """Return when the process dies at this unit, or None. Other units can be committed during this one."""
        effect = self._kill.get("effect")
        if effect is not None and effect not in [
            type(each).__name__ for each in getattr(unit, "effects", ())
        ]:
            return None
        self._chosen += 1
        return self._kill["when"] if self._kill.get("unit") == self._chosen else None

    def __getattr__(self, name: str) -> Any:  # reads pass through
        return getattr(self._inner, name)


def journal_url(order: Order) -> str:
    """Return the URL of the order's journal."""
    return order.get("url", f"sqlite:///{order['folder']}/journal.db")


async def no_work_left(order: Order) -> None:
    """Wait until no thread of the journal has work left, which means that no thread has a wake-up.

    Waiting for the existing runs is not enough: an agent that is addressed during its run gets the next run only
    when that one is claimed.
    """
    store = await opened(journal_url(order), MemoryBus())
    try:
        while await store.due(datetime.max.replace(tzinfo=UTC), 1):  # noqa: ASYNC110  # commits elsewhere set no event
            await asyncio.sleep(0.01)
    finally:
        await store.close()


@asynccontextmanager
async def at_work(
    order: Order,
    catalog: Catalog,
    executors: Mapping[Kind, Executor] = FUNCTIONS,
    servers: McpServers | None = None,
    motor_clock: Clock | None = None,
) -> AsyncGenerator[Runtime]:
    """Run the app on the journal of the order, which kills the process at the given point.

    The scheduler measures its delays by `motor_clock` if there is one.
    """
    folder, bus, clock = Path(order["folder"]), MemoryBus(), SystemClock()
    lock: JournalLock = PostgresLock(order["url"]) if "url" in order else FileLock(folder / "journal.db")
    store = await opened(journal_url(order), bus)
    killing: Any = KillingStore(store, order.get("kill") or {})  # reads pass through
    motor = EmbeddedMotor(killing, motor_clock or clock, lock)
    cipher = KeyFileCipher(folder / "journal.key")
    parts = DefaultParts(
        store=killing,
        motor=motor,
        bus=bus,
        clock=clock,
        executors=executors,
        cipher=cipher,
        mcp=servers or LazyMcp(Settings()),
    )
    runtime = Runtime(catalog, parts, Settings())
    await runtime.start()
    yield runtime
    (folder / "commits").write_text(str(killing.count))
    await runtime.stop(5.0)
