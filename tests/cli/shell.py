"""Runs the real command in a folder of its own."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.forks import Forks

COMMAND = (sys.executable, "-m", "toolwright.cli")
PATIENCE = 60.0  # seconds, for a machine with other work to do


class Running:
    """A command that is still at work; `shown` is what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.shown = ""

    def until(self, text: str) -> str:
        """Read until the text has been printed; all that was printed."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, f"{text!r} was not printed, but {self.shown!r}"
            chunk = os.read(self.process.stdout.fileno(), 65_536)
            assert chunk, f"the command ended before {text!r}: {self.shown!r}"
            self.shown += chunk.decode()
        return self.shown

    def say(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def ctrl_c(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        out, _ = self.process.communicate(timeout=PATIENCE)
        self.shown += out.decode()
        return self.process.returncode


class Shell:
    """A folder to run commands in; `env` are its variables beside the usual ones."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.folder = folder
        self._forks = forks
        self.env: dict[str, str] = {}

    def at(self, folder: Path) -> "Shell":
        """A shell in another folder."""
        return Shell(folder, self._forks)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return self._forks.run(list(arguments), self.folder, self._variables(), typed)

    def refused(self, *arguments: str, typed: str = "") -> tuple[int, str]:
        """The exit code and the one line of a command that is refused."""
        done = self.run(*arguments, typed=typed)
        assert done.stdout == ""
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("toolwright: ")
        return done.returncode, lines[0]

    @contextmanager
    def start(self, *arguments: str) -> Generator[Running]:
        """A command at work, which is killed if it outlives the block."""
        with subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=self._variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                yield Running(process)
            finally:
                if process.poll() is None:
                    process.kill()

    def _variables(self) -> Mapping[str, str]:
        usual = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWRIGHT_")}
        return usual | {"COLUMNS": "100"} | self.env
