"""`toolwright threads`."""

from toolwright.cli.loop import run
from toolwright.cli.settings import read_settings
from toolwright.core.errors import ThreadBusy
from toolwright.wiring.upkeep.threads import delete_thread


def delete(thread_id: str, *, cancel: bool) -> None:
    """Delete a thread of the journal, whether a server is at work on it or not."""
    try:
        run(delete_thread(read_settings(), thread_id, cancel=cancel))
    except ThreadBusy as error:
        if cancel:
            raise
        raise ThreadBusy(
            f"A run is at work in the thread {thread_id!r} or below it: cancel it with --cancel."
        ) from error
    print(f"The thread {thread_id} is deleted, with all that belonged to it.")
