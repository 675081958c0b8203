"""The command in forked processes of a process that has imported it: as good as new, in a twentieth of the time.

`python -m tests.forks` reads orders from the socket that is its standard input: one datagram of JSON each. An order to
start a process includes its three standard streams, and is answered with its process id. An order to wait for one is
answered with its exit status. A background process waits for its threads at its end, as the interpreter does, and
destroys what it has left; one that is run to its end skips that. Neither frees its memory, which would first copy what
it shares with the server. That, and the settings that the interpreter reads at its start, are tested with new
processes: see `Shell.start_anew`.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

MAX_ORDER = 1 << 18  # bytes of an order: a command's arguments and variables
LOADED = (
    "toolwright.testing",
    *("yaml", "rich.console", "alembic.command", "asyncpg", "anyio._backends._asyncio", "encodings.idna"),
    *("typer._adapters", "typer._click.decorators", "uvicorn.lifespan.off", "rich._emoji_codes"),
    *("pydantic_ai.models.openai", "mcp.client.stdio"),
    *(f"toolwright.cli.{each}" for each in ("entry", "chat", "demo", "doctor", "serve", "journal", "tools")),
    *(f"toolwright.wiring.{each}" for each in ("agent_runs", "config", "gateway", "upkeep")),
    *(
        f"toolwright.adapters.{each}"
        for each in (
            *("cipher", "executors.http", "files", "mcp.connection", "models.script_file"),
            *("models.providers.model", "store.migrate", "store.opening", "store.postgres.locks"),
        )
    ),
)
PYTEST = str(Path(pytest.__file__).with_name("__main__.py"))
"""The program of `python -m pytest`."""
Order: TypeAlias = dict[str, Any]  # JSON


class Fork:
    """A forked process, with the part of `subprocess.Popen` that tests need."""

    def __init__(self, orders: socket.socket, pid: int, patience: float) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._orders = orders
        self._patience = patience

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, and wait until it has ended."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status. Raises `TimeoutExpired` after that many seconds, and kills it."""
        if self.returncode is None:
            self._orders.send(json.dumps({"wait": self.pid}).encode())
            self._orders.settimeout(self._patience if timeout is None else timeout)
            try:
                self.returncode = int(self._orders.recv(64))
            except TimeoutError as error:
                os.kill(self.pid, signal.SIGKILL)
                self._orders.settimeout(self._patience)
                self.returncode = int(self._orders.recv(64))
                raise subprocess.TimeoutExpired(str(self.pid), timeout or self._patience) from error
        return self.returncode


class Forks:
    """Starts commands, and runs them to their end."""

    def __init__(self, orders: socket.socket, patience: float) -> None:
        self._orders = orders
        self._patience = patience

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        streams: Sequence[int],
    ) -> Fork:
        """Start a command in the folder."""
        return self._begin(arguments, folder, variables, streams, whole=True)

    def _begin(
        self,
        arguments: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        streams: Sequence[int],
        **how: object,
    ) -> Fork:
        order: Order = {
            "arguments": list(arguments),
            "folder": str(folder),
            "variables": dict(variables),
            **how,
        }
        self._orders.settimeout(self._patience)
        socket.send_fds(self._orders, [json.dumps(order).encode()], list(streams))
        return Fork(self._orders, int(self._orders.recv(64)), self._patience)

    def run(
        self,
        arguments: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        typed: str = "",
        program: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, or a Python `program` there with warnings as errors. Return its output."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(typed.encode())
            given.seek(0)
            streams = [given.fileno(), out.fileno(), err.fileno()]
            status = self._begin(arguments, folder, variables, streams, program=program).wait()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read().decode(), err.read().decode())


@contextmanager
def forks(patience: float) -> Generator[Forks]:
    """Run the server. Waits for it and its processes time out after `patience` seconds."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, subprocess.Popen([sys.executable, "-m", "tests.forks"], stdin=theirs.fileno()) as server:
        theirs.close()
        yield Forks(ours, patience)
        ours.close()
        server.wait(patience)


def serve(orders: socket.socket) -> None:
    """Execute orders until there are no more. Returns in a forked process after its order."""
    for name in LOADED:
        importlib.import_module(name)
    with importlib.import_module("tests.crash.forks").prepared():
        pass
    gc.collect()
    gc.freeze()
    while True:
        said, streams, _, _ = socket.recv_fds(orders, MAX_ORDER, 3)
        if not said:
            return
        order: Order = json.loads(said)
        if "wait" in order:
            orders.send(str(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])).encode())
            continue
        child = os.fork()
        if child == 0:
            orders.close()
            become(order, streams)
            return
        for stream in streams:
            os.close(stream)
        orders.send(str(child).encode())


def become(order: Order, streams: list[int]) -> None:
    """Run as the new process, to its end."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    status = 1
    if not order.get("whole"):
        atexit._clear()  # pyright: ignore[reportPrivateUsage]  # these handlers belong to the server
    try:
        carry_out(order)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    # As at the end of an interpreter:
    if order.get("whole"):
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        gc.collect()
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def carry_out(order: Order) -> None:
    """Run the command as `python -m toolwright.cli` does, or the program as `python -W error` does."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["variables"])
    sys.path[0] = order["folder"]
    program: str | None = order.get("program")
    sys.argv = [program or "toolwright", *order["arguments"]]
    if program:
        warnings.simplefilter("error")
        runpy.run_path(program, run_name="__main__")
    else:
        importlib.import_module("toolwright.cli").main()


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
