"""`toolwright serve` and `toolwright work`, and with `--dev` a restart when a file changes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from toolwright.cli.loop import run
from toolwright.cli.output import USAGE, Refusal, log_fully
from toolwright.cli.settings import read_settings, served_app, warn_of_variables
from toolwright.wiring import gateway
from toolwright.wiring.app import App
from toolwright.wiring.config import DEFAULT_FILE
from toolwright.wiring.settings import MEMORY, Settings

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


GRACE = 10.0  # seconds that calls in progress have to end, as docs/guides/scale-out.md says


def serve(target: str | None, host: str, port: int, *, dev: bool, no_work: bool = False) -> int:
    """Serve the app until Ctrl-C; the exit code."""
    if dev:
        return serve_and_reload(target, host, port, no_work=no_work)
    settings = read_settings(**{"work": False} if no_work else {})
    log_fully(settings.log_format, settings.log)
    warn_of_variables(os.environ)
    app = served_app(target)
    what = target or "an empty app"

    def ready(url: str) -> None:
        open_docs = settings.docs == "open" or (settings.docs and not settings.keyed)
        shown = f", its API at {url}/docs" if open_docs else ""
        print(f"Toolwright serves {what} at {url}{shown}. Ctrl-C stops it.", flush=True)
        if target is None and DEFAULT_FILE.is_file():
            print(f"The app of {DEFAULT_FILE} is not served: toolwright serve app:app does that.", flush=True)
        if not settings.keyed:
            print("There are no keys: every caller on this machine has all rights.", flush=True)

    run(gateway.serve(app, settings, host=host, port=port, ready=ready, grace=GRACE))
    return 0


def work(target: str | None) -> int:
    """Execute the app's runs until SIGINT or SIGTERM; the exit code."""
    settings = read_settings()
    if target is None:
        raise Refusal(
            "`toolwright work` needs an app whose runs it executes: name it, as in `toolwright work app:app`, or a "
            "configuration file."
        )
    if not settings.work:
        raise Refusal(
            "`toolwright work` only executes runs, and TOOLWRIGHT_WORK is off: remove that variable."
        )
    if settings.database_url.startswith(MEMORY):
        raise Refusal(
            "`toolwright work` executes the runs of a database that other processes serve, and a journal in memory is "
            "its own: set TOOLWRIGHT_DATABASE_URL."
        )
    log_fully(settings.log_format, settings.log)
    warn_of_variables(os.environ)
    run(_work(served_app(target), settings, target))
    return 0


async def _work(app: App, settings: Settings, what: str) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with app.runtime(settings, grace=GRACE) as runtime:
        does = "executes" if runtime.driving else "waits to execute"
        print(f"Toolwright {does} the runs of {what}. Ctrl-C stops it.", flush=True)
        await ended.wait()
