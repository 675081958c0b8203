"""Threads and runs of a journal, for a process that leads no runs: what the command line does beside a server."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.motor.manual import ManualClock, ManualMotor
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.errors import InvalidRequest
from toolwright.core.journal.store import Store
from toolwright.core.threads.event import Event
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.threads.deletion import Deletion
from toolwright.wiring.app import App
from toolwright.wiring.assembly import assemble
from toolwright.wiring.parts import Parts, check_there, file_store, open_journal
from toolwright.wiring.settings import MEMORY, Settings


async def delete_thread(settings: Settings, thread_id: str, *, cancel: bool) -> None:
    """Delete a thread of the settings' journal; see `Threads.delete`.

    A run that is to be cancelled is ended by the process that leads it, which finds word of it in the journal.
    """
    async with _opened(settings) as store:
        files = file_store(settings)
        try:
            deletion = Deletion(store, _tell_nobody, MemoryBus(), files, SystemClock(), new_id)
            await deletion.delete(thread_id, cancel=cancel)
        finally:
            await files.close()


@asynccontextmanager
async def opened_runtime(settings: Settings, app: App) -> AsyncGenerator[Runtime]:
    """The app over the settings' journal, without executing anything: other processes find in it what is asked of them.

    Its threads, runs and prompts can be read and changed.
    """
    async with _opened(settings) as store:
        motor = ManualMotor(store, ManualClock())  # which nobody turns: no run is executed here
        parts = Parts(store=store, motor=motor, bus=MemoryBus())
        yield assemble(app.catalog, parts, settings)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[Store]:
    """The journal, which must be there. Raises `InvalidRequest` for one in memory."""
    if settings.database_url.startswith(MEMORY):
        raise InvalidRequest(
            "A journal in memory is that of one process alone: it cannot be reached from here."
        )
    if settings.sqlite_path is not None:
        check_there(settings.sqlite_path)
    store, _ = await open_journal(settings, _tell_nobody)
    try:
        yield store
    finally:
        await store.close()


def _tell_nobody(_: str | Sequence[Event]) -> None:
    """Who executes runs finds wakes in the journal, and so do followers their events."""
