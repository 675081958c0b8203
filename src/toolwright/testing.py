"""Testing tools: a runtime in memory, scripted models, and a scheduler and a clock that the test controls."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from types import NoneType

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.memory import MemorySandbox
from toolwright.adapters.models.resolve import ProviderGuard
from toolwright.adapters.models.scripted import FunctionModel, ScriptedModel, TrigramEmbedder
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.motor.manual import ManualClock, ManualMotor
from toolwright.adapters.store.locks import NoLock
from toolwright.adapters.store.memory.store import MemoryStore
from toolwright.adapters.telemetry.instruments import trace_tree
from toolwright.core.checks import check_kind
from toolwright.core.concurrency import entered
from toolwright.core.journal.store import Store
from toolwright.core.model import Model
from toolwright.core.state.memory import MemoryState
from toolwright.core.tools.function import FunctionExecutor
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.app import App
from toolwright.wiring.executors import CodeSandbox, HttpTools
from toolwright.wiring.lazy import models_of
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

__all__ = [
    "CodeSandbox",
    "EmbeddedMotor",
    "FunctionModel",
    "ManualClock",
    "ManualMotor",
    "MemoryBus",
    "MemorySandbox",
    "MemoryState",
    "MemoryStore",
    "NoLock",
    "ScriptedModel",
    "TrigramEmbedder",
    "by_hand",
    "no_providers",
    "runtime",
    "trace_tree",
]


@contextmanager
def no_providers() -> Generator[None]:
    """Block all models and embedders of providers within the block, in the whole process.

    A run that uses a blocked model fails. At the end of the block `AssertionError` names the models that were used.
    """
    guard = ProviderGuard()
    with guard.on():
        yield
    if guard.fault is not None:
        raise AssertionError(guard.fault)


@entered
async def runtime(
    app: App, settings: Settings | None = None, *, model: str | Model | object | None = None
) -> AsyncGenerator[Runtime]:
    """Open a runtime like `app.runtime`, with the journal in memory: nothing is written to disk.

    A `model` overrides every model of the app (`App.with_model`).
    """
    chosen = _app(app, model)
    check_kind("The settings of a runtime", settings, (Settings, NoneType), "toolwright.Settings")
    in_memory = (settings or Settings()).model_copy(update={"database_url": "memory://"})
    async with chosen.runtime(in_memory, grace=1.0) as running:
        yield running


def _app(app: App, model: object | None) -> App:
    check_kind("The app of a runtime", app, App, "a toolwright.App")
    return app if model is None else app.with_model(model)


@asynccontextmanager
async def by_hand(
    app: App, settings: Settings | None = None, *, model: str | Model | object | None = None
) -> AsyncGenerator[tuple[Runtime, ManualMotor]]:
    """Open a runtime in memory whose scheduler and clock are controlled by the test.

    `await motor.run_until_idle()` executes all due work, `await motor.run_timers()` moves the clock to the next timer
    and executes it. A waiting run is suspended immediately. A `model` overrides every model of the app.
    """
    async with by_hand_on(_in_memory, app, settings, model=model) as turned:
        yield turned


async def _in_memory(bus: MemoryBus) -> Store:
    return MemoryStore(bus.publish)


@asynccontextmanager
async def by_hand_on(
    opening: Callable[[MemoryBus], Awaitable[Store]],
    app: App,
    settings: Settings | None = None,
    *,
    model: str | Model | object | None = None,
) -> AsyncGenerator[tuple[Runtime, ManualMotor]]:
    """Open a runtime like `by_hand`, on the journal that `opening` opens."""
    app = _app(app, model)
    check_kind("The settings of a runtime", settings, (Settings, NoneType), "toolwright.Settings")
    async with app.living() as lifespan:
        bus, clock = MemoryBus(), ManualClock()
        store = await opening(bus)
        motor = ManualMotor(store, clock)
        in_memory = (settings or Settings()).model_copy(update={"database_url": "memory://"})
        chosen, models = app.completed(in_memory), models_of(app.model)
        http_tools, functions = HttpTools(chosen), FunctionExecutor(overrides=app.overrides)
        parts = DefaultParts(
            store=store,
            motor=motor,
            bus=bus,
            clock=clock,
            models=models,
            executors={"function": functions, "gateway": http_tools},
            embedder=app.embedder,
            lifespan=lifespan,
            close=(models.aclose, http_tools.aclose),
        )
        running = Runtime(app.catalog, parts, chosen, inline_wait=0.0)
        await running.start()
        try:
            yield running, motor
        finally:
            await running.stop(0.0)
            functions.close()
