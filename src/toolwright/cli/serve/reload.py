"""`toolwright serve --dev`: a server that is started again whenever a Python file of the folder, or its
configuration file, changes."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from toolwright.cli.output import USAGE

PAUSE = 0.5  # seconds between two looks at the files
STOP = 20.0  # seconds that a server has to stop
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv"}


def serve_and_reload(target: str | None, host: str, port: int, *, no_work: bool = False) -> int:
    """Serve in a process of its own, again after each change, until Ctrl-C; the exit code.

    An app that cannot be loaded waits for the next change. Nothing is lost in between: runs go on.
    """
    command = [sys.executable, "-m", "toolwright.cli", "serve", *([target] if target else [])]
    command += ["--host", host, "--port", str(port), *(["--no-work"] if no_work else [])]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    while True:
        seen = _changed_at(target)
        server = subprocess.Popen(command)  # noqa: S603 - this very program
        try:
            code = _until_change(server, seen, target)
        except KeyboardInterrupt:
            _stop(server)
            return 0
        if code is not None:
            return code
        print("A file has changed: the server starts again.", flush=True)


def _until_change(server: subprocess.Popen[bytes], seen: dict[Path, int], target: str | None) -> int | None:
    """Wait for a change and stop the server, or for the server's own end: its exit code."""
    while _changed_at(target) == seen:
        try:
            code = server.wait(PAUSE)
        except subprocess.TimeoutExpired:
            continue
        if code != USAGE:
            return code
        time.sleep(PAUSE)
    _stop(server)
    return None


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()


def _changed_at(target: str | None) -> dict[Path, int]:
    files = [*_python_files(Path())]
    if target is not None and target.endswith(".json") and Path(target).exists():
        files.append(Path(target))
    return {path: path.stat().st_mtime_ns for path in files}


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _python_files(path)
        elif path.suffix == ".py" and path.exists():
            yield path
