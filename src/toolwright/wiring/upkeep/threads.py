"""Deletion of threads from a process that leads no runs: what the command line does beside a server."""

from collections.abc import Sequence

from toolwright.adapters.bus.memory import MemoryBus
from toolwright.adapters.system import SystemClock, new_id
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.threads.event import Event
from toolwright.runtime.threads.deletion import Deletion
from toolwright.wiring.parts import file_store, open_journal
from toolwright.wiring.settings import MEMORY, Settings


async def delete_thread(settings: Settings, thread_id: str, *, cancel: bool) -> None:
    """Delete a thread of the settings' journal; see `Threads.delete`.

    A run that is to be cancelled is ended by the process that leads it, which finds word of it in the journal.
    """
    if settings.database_url.startswith(MEMORY):
        raise InvalidRequest(
            "A journal in memory is that of one process alone: nothing can be deleted from here."
        )
    path = settings.sqlite_path
    if path is not None and not path.is_file():
        raise NotFound(f"There is no database {str(path)!r}: name it in TOOLWRIGHT_DATABASE_URL.")
    store, _ = await open_journal(settings, _tell_nobody)
    files = file_store(settings)
    try:
        deletion = Deletion(store, _tell_nobody, MemoryBus(), files, SystemClock(), new_id)
        await deletion.delete(thread_id, cancel=cancel)
    finally:
        await files.close()
        await store.close()


def _tell_nobody(_: str | Sequence[Event]) -> None:
    """Who leads runs finds wakes in the journal, and so do followers their events."""
