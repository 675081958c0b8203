"""Puts a runtime together from its parts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.store.locks import FileLock, NoLock
from toolwright.adapters.store.memory import MemoryStore
from toolwright.adapters.store.opening import open_postgres, open_sqlite
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.catalog import Catalog
from toolwright.core.event import Event
from toolwright.core.function import FunctionExecutor
from toolwright.core.pipeline import Executor
from toolwright.core.ports import Bus, Clock, Lock, Models, Motor, NewId, Store
from toolwright.core.tool import Kind
from toolwright.runtime.calls import Calls, Instant
from toolwright.runtime.drain import Drainer
from toolwright.runtime.follow import Events
from toolwright.runtime.health import Health
from toolwright.runtime.housekeeping import Housekeeper
from toolwright.runtime.instants import INSTANTS
from toolwright.runtime.loop import INLINE_WAIT, Loop
from toolwright.runtime.pending import PendingCalls
from toolwright.runtime.runs import Runs
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.threads import Threads
from toolwright.wiring.models import NamedModels
from toolwright.wiring.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that a runtime is made of."""

    store: Store
    motor: Motor
    bus: Bus
    clock: Clock = field(default_factory=SystemClock)
    new_id: NewId = new_id
    models: Models = field(default_factory=NamedModels)
    executors: Mapping[Kind, Executor] = field(default_factory=lambda: {"function": FunctionExecutor()})
    close: Sequence[Callable[[], Awaitable[None]]] = ()
    instants: Mapping[Kind, Instant] = field(default_factory=lambda: INSTANTS)


def assemble(catalog: Catalog, parts: Parts, settings: Settings, inline_wait: float = INLINE_WAIT) -> Runtime:
    """The runtime of these parts, not yet started."""
    store, motor, bus, clock, ids = parts.store, parts.motor, parts.bus, parts.clock, parts.new_id
    calls = Calls(parts.executors, parts.instants, bus)
    loop = Loop(
        calls,
        parts.models,
        bus,
        default_model=settings.model,
        max_steps=settings.max_steps,
        inline_wait=inline_wait,
    )
    runs = Runs(store, motor, bus, clock, ids)
    return Runtime(
        catalog=catalog,
        store=store,
        motor=motor,
        drainer=Drainer(store, loop, calls, catalog, clock, ids),
        threads=Threads(store, motor, catalog, runs, clock, ids),
        runs=runs,
        calls=PendingCalls(store, motor, clock, ids),
        events=Events(store, bus, motor),
        health=Health(store, clock, ids),
        housekeeper=Housekeeper(store, motor, clock, ids),
        close=parts.close,
    )


async def open_parts(settings: Settings) -> Parts:
    """The parts that the settings name: a journal, its lock, the embedded motor."""
    bus, clock = MemoryBus(), SystemClock()
    store, lock = await _journal(settings, bus.publish)
    motor = EmbeddedMotor(store, clock, lock, concurrency=settings.concurrency)
    models, functions = NamedModels(), FunctionExecutor()

    async def end_threads() -> None:
        functions.close()

    return Parts(
        store=store,
        motor=motor,
        bus=bus,
        clock=clock,
        models=models,
        executors={"function": functions},
        close=(models.aclose, end_threads),
    )


async def _journal(settings: Settings, publish: Callable[[Sequence[Event]], None]) -> tuple[Store, Lock]:
    path = settings.sqlite_path
    if path is not None:
        return await open_sqlite(path, publish), FileLock(path)
    if settings.database_url.startswith("memory:"):
        return MemoryStore(publish), NoLock()
    store = await open_postgres(settings.database_url, publish)
    locks = import_module("toolwright.adapters.store.postgres_lock")  # by name: it needs the extra
    return store, locks.PostgresLock(settings.database_url)
