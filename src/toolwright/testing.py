"""Public doubles for tests: a runtime in memory, a scripted model, a motor and a clock that you turn yourself."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.models.scripted import ScriptedModel
from toolwright.adapters.motor.embedded import EmbeddedMotor
from toolwright.adapters.motor.manual import ManualClock, ManualMotor
from toolwright.adapters.store.locks import NoLock
from toolwright.adapters.store.memory import MemoryStore
from toolwright.core.memory_state import MemoryState
from toolwright.runtime.runtime import Runtime
from toolwright.wiring.app import App
from toolwright.wiring.settings import Settings

__all__ = [
    "EmbeddedMotor",
    "ManualClock",
    "ManualMotor",
    "MemoryBus",
    "MemoryState",
    "MemoryStore",
    "NoLock",
    "ScriptedModel",
    "runtime",
]


@asynccontextmanager
async def runtime(app: App, settings: Settings | None = None) -> AsyncGenerator[Runtime]:
    """Like `app.runtime`, with the journal in memory: nothing is written, nothing outlives the block."""
    chosen = (settings or Settings()).model_copy(update={"database_url": "memory://"})
    async with app.runtime(chosen, grace=1.0) as running:
        yield running
