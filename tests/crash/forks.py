"""Processes by the hundred: a server that imports everything once and forks a child for each line of JSON.

`python -m tests.crash.forks` answers with the child's exit status. The order names the `module` of this folder whose
`run` the child executes. A fork of this process, which has no threads and no event loop, is as good as a new process
and takes a tenth of the time. The same holds for its copies of an empty journal, and for everything that a process
prepares at its first run, such as statements and constructors of values: one run is executed in advance.
"""

import asyncio
import gc
import importlib
import json
import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from toolwright.adapters.store.engine.program import statements
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sql.messages import OfferQueries
from toolwright.adapters.store.sql.readers import Queries
from toolwright.adapters.store.sql.statements import Statements

Order: TypeAlias = dict[str, Any]  # JSON
Run: TypeAlias = Callable[[Order], Awaitable[None]]
COMPILED = (Statements, Queries, OfferQueries)


def serve() -> None:
    """Execute the orders from standard input, each in a separate process."""
    with prepared() as empty:
        for line in sys.stdin:
            order: Order = json.loads(line)
            run = run_of(order["module"])
            child = fork(lambda order=order, run=run: begin(run, order, empty))
            print(wait(child), flush=True)


@contextmanager
def prepared() -> Generator[Path]:
    """Prepare this process for its forks. Yield the file of an empty journal."""
    _compile_statements()
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "journal.db"
        wait(fork(lambda: upgrade_sqlite(empty)))
        _run_once(empty)
        yield empty


def _compile_statements() -> None:
    """Compile all SQL for both databases, which would take most of a child's time."""
    for kind in COMPILED:
        statements(kind, "sqlite")
        statements(kind, "postgresql")


def _run_once(empty: Path) -> None:
    """Execute a run on a copy of that journal, since the first one in a process takes much longer than the next."""
    for name in ("anyio._backends._asyncio", "encodings.idna"):  # are imported at their first use
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        begin(run_of("child"), {"folder": folder, "action": "start", "flavour": "plain"}, empty)
    assert threading.active_count() == 1, "a fork has only the thread that forks"


@cache
def run_of(module: str) -> Run:
    """Load the module once and return its `run`."""
    run: Run = importlib.import_module(f"tests.crash.{module}").run
    gc.collect()
    gc.freeze()  # objects that the collector skips are never copied
    return run


def begin(run: Run, order: Order, empty: Path) -> None:
    """Execute one order, on the state in its folder, or on an empty journal."""
    journal = Path(order["folder"]) / "journal.db"
    if "url" not in order and not journal.exists():
        shutil.copy(empty, journal)
    asyncio.run(run(order))  # type: ignore[arg-type]  # a coroutine function


def fork(work: Callable[[], None]) -> int:
    """Fork a child that executes the function and exits."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def wait(child: int) -> int:
    """Return how the child ended; below zero for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve()
