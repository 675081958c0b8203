"""What units look for in the tables in memory before they write anything."""

from collections.abc import Sequence

from toolwright.adapters.store.engine.outcome import GuardFailed
from toolwright.adapters.store.memory.tables import Tables, ThreadRow
from toolwright.core.files.file import FileChange
from toolwright.core.threads.run import Run


def thread_in(thread_id: str, tables: Tables) -> ThreadRow:
    """The thread's row, else the guard `thread` fails."""
    thread = tables.threads.get(thread_id)
    if thread is None:
        raise GuardFailed("thread")
    return thread


def open_run(run_id: str, thread_id: str, tables: Tables) -> Run:
    """The run, if it is not over, else the guard `run` fails."""
    run = tables.runs.get(run_id)
    if run is None or run.thread_id != thread_id or run.over:
        raise GuardFailed("run")
    return run


def check_files(changes: Sequence[FileChange], thread: ThreadRow) -> None:
    """New files must be the first at their paths."""
    if any(change.new and change.folded in thread.files for change in changes):
        raise GuardFailed("file")
