"""The command as processes that are forked from one which has imported it: as good as new, at a twentieth of the time.

`python -m tests.cli.forks` reads orders from the socket that is its standard input: one datagram of JSON each, with
the three standard streams of the process to be; it answers with the exit status. What needs a process of its own
from the beginning, with signals and a terminal, is started by `Shell.start`.
"""

import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LARGEST = 1 << 18  # bytes of an order: a command's arguments and variables
LOADED = (
    "toolwright.cli.entry",
    "toolwright.wiring.gateway",
    "alembic.command",
    "rich.console",
    "toolwright.testing",
)


class Forks:
    """Runs commands to their end."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    def run(
        self, arguments: list[str], folder: Path, variables: Mapping[str, str], typed: str
    ) -> subprocess.CompletedProcess[str]:
        order = {"arguments": arguments, "folder": str(folder), "variables": dict(variables)}
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(typed.encode())
            given.seek(0)
            socket.send_fds(
                self._orders, [json.dumps(order).encode()], [given.fileno(), out.fileno(), err.fileno()]
            )
            status = int(self._orders.recv(64))
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(arguments, status, out.read().decode(), err.read().decode())


@contextmanager
def forks(patience: float) -> Generator[Forks]:
    """The server, at work."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(patience)
    with ours, subprocess.Popen([sys.executable, "-m", "tests.cli.forks"], stdin=theirs.fileno()) as server:
        theirs.close()
        yield Forks(ours)
        ours.close()
        server.wait(patience)


def serve(orders: socket.socket) -> None:
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        said, streams, _, _ = socket.recv_fds(orders, LARGEST, 3)
        if not said:
            return
        child = os.fork()
        if child == 0:
            orders.close()
            become(json.loads(said), streams)
        for stream in streams:
            os.close(stream)
        orders.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def become(order: dict[str, Any], streams: list[int]) -> None:
    """The command itself, as `python -m toolwright.cli` begins."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    status = 1
    try:
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["variables"])
        sys.path[0] = order["folder"]
        sys.argv = ["toolwright", *order["arguments"]]
        importlib.import_module("toolwright.cli").main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
