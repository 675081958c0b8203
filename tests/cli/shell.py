"""Runs the real command in a temporary folder."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.forks import Fork, Forks

COMMAND = (sys.executable, "-m", "toolwright.cli")
PATIENCE = 60.0  # seconds, for a busy machine


class Running:
    """A running command; `shown` is its output so far."""

    def __init__(self, process: Fork | subprocess.Popen[bytes], typed: IO[bytes], printed: IO[bytes]) -> None:
        self.process = process
        self.shown = ""
        self._typed = typed
        self._printed = printed

    def until(self, text: str) -> str:
        """Read until the text has been printed. Return all output so far."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert self._read(deadline), f"the command ended before {text!r}: {self.shown!r}"
        return self.shown

    def say(self, line: str) -> None:
        """Type a line."""
        self._typed.write(f"{line}\n".encode())
        self._typed.flush()

    def ctrl_c(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for the end. Return the exit code."""
        self._typed.close()
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        """Wait for more output. Return False at the end."""
        ready, _, _ = select.select([self._printed], [], [], max(deadline - time.monotonic(), 0.0))
        assert ready, f"nothing more was printed than {self.shown!r}"
        chunk = os.read(self._printed.fileno(), 65_536)
        self.shown += chunk.decode()
        return bool(chunk)


class Shell:
    """A folder to run commands in; `env` holds variables in addition to the usual ones."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder = folder
        self._forks = forks
        self.env: dict[str, str] = {}

    def at(self, folder: Path) -> "Shell":
        """Return a shell in another folder."""
        return Shell(folder, self._forks)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self._forks.run(arguments, self.folder, self.variables(), typed)

    def refused(self, *arguments: str, typed: str = "") -> tuple[int, str]:
        """Return the exit code and the one line of a command that is rejected."""
        done = self.run(*arguments, typed=typed)
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("toolwright: ")
        return done.returncode, lines[0]

    @contextmanager
    def start(self, *arguments: str) -> Generator[Running]:
        """Start a command in a forked process, which is killed if it outlives the block."""
        given, typed = os.pipe()
        printed, shown = os.pipe()
        with os.fdopen(typed, "wb") as typing, os.fdopen(printed, "rb") as reading:
            try:
                process = self._forks.start(arguments, self.folder, self.variables(), [given, shown, shown])
            finally:
                os.close(given)
                os.close(shown)
            try:
                yield Running(process, typing, reading)
            finally:
                process.kill()

    @contextmanager
    def start_anew(self, *arguments: str) -> Generator[Running]:
        """Start a command in a new process."""
        with subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield Running(process, process.stdin, process.stdout)
            finally:
                process.kill()

    def variables(self) -> Mapping[str, str]:
        usual = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
        return usual | {"COLUMNS": "100"} | self.env
