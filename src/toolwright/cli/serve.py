"""`toolwright serve` and `toolwright work`, and with `--dev` a restart when a file changes."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from toolwright.cli.loop import run
from toolwright.cli.output import USAGE, Refusal, log_fully
from toolwright.cli.settings import read_settings, served_app, warn_unknown_variables
from toolwright.wiring import gateway
from toolwright.wiring.app import App
from toolwright.wiring.config import DEFAULT_FILE
from toolwright.wiring.parts import wait_for_database
from toolwright.wiring.settings import MEMORY, Settings

PAUSE = 0.5  # seconds between two checks of the files
STOP = 20.0  # seconds that a server has to stop before it is killed
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "venv"}
GRACE = 10.0  # seconds that calls in progress have to end, documented in docs/guides/scale-out.md
SERVICE_WITHOUT_KEYS = (
    "A system service needs keys: put TOOLWRIGHT_SECRET_KEYS, as `toolwright keys new` prints it, into the file that "
    "the unit names as EnvironmentFile. To give all rights to every caller on any machine, add --insecure."
)


def serve_and_reload(target: str | None, host: str, port: int, *options: str) -> int:
    """Serve in a child process, restarted after each change of a file, until Ctrl-C. Return the exit code.

    If the app cannot be loaded, wait for the next change. Runs are durable: each server continues the runs of the
    previous one.
    """
    command = [sys.executable, "-m", "toolwright.cli", "serve", *([target] if target else [])]
    command += ["--host", host, "--port", str(port), *options]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    while True:
        modified = _modification_times(target)
        server = subprocess.Popen(command)  # noqa: S603 - this very program
        try:
            code = _until_change(server, modified, target)
        except KeyboardInterrupt:
            _stop(server)
            return 0
        if code is not None:
            return code
        print("A file has changed. The server restarts.", flush=True)


def _until_change(
    server: subprocess.Popen[bytes], modified: dict[Path, int], target: str | None
) -> int | None:
    """Wait until a file changes, then stop the server and return None.

    Return the exit code of a server that ends before that.
    """
    while _modification_times(target) == modified:
        try:
            code = server.wait(PAUSE)
        except subprocess.TimeoutExpired:
            continue
        if code != USAGE:
            return code
        time.sleep(PAUSE)  # the app is invalid: the next change restarts it
    _stop(server)
    return None


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C does not wait for it
        server.kill()
        server.wait()


def _modification_times(target: str | None) -> dict[Path, int]:
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


def serve(
    target: str | None, host: str, port: int, *, dev: bool, no_work: bool = False, insecure: bool = False
) -> int:
    """Serve the app until Ctrl-C and return the exit code."""
    if dev:
        options = {"--no-work": no_work, "--insecure": insecure}
        return serve_and_reload(target, host, port, *[name for name, is_set in options.items() if is_set])
    settings = read_settings(**{"work": False} if no_work else {})
    if not settings.keyed and not insecure and is_system_service(os.environ):
        raise Refusal(SERVICE_WITHOUT_KEYS)
    log_fully(settings.log_format, settings.log)
    warn_unknown_variables(os.environ)
    app = served_app(target)
    app_name = target or "an empty app"

    def ready(url: str) -> None:
        open_docs = settings.docs == "open" or (settings.docs and not settings.keyed)
        api_docs = f", its API at {url}/docs" if open_docs else ""
        print(f"Toolwright serves {app_name} at {url}{api_docs}. Ctrl-C stops it.", flush=True)
        if target is None and DEFAULT_FILE.is_file():
            print(
                f"The app in {DEFAULT_FILE} is not served. To serve it: toolwright serve app:app", flush=True
            )
        if not settings.keyed:
            where = "any machine" if insecure else "this machine"
            print(f"No keys are configured: every caller on {where} has all rights.", flush=True)

    run(gateway.serve(app, settings, host=host, port=port, ready=ready, grace=GRACE, insecure=insecure))
    return 0


def is_system_service(environment: Mapping[str, str]) -> bool:
    """Return whether systemd started this process as a service.

    INVOCATION_ID does not tell: shells in a desktop session inherit it from the service of their terminal. The other
    two variables name the process or its output, so that an inherited value does not match.
    """
    if environment.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        return True
    for output in (1, 2):
        with suppress(OSError):  # it is closed
            file = os.fstat(output)
            if environment.get("JOURNAL_STREAM") == f"{file.st_dev}:{file.st_ino}":
                return True
    return False


def work(target: str | None) -> int:
    """Execute the app's runs until SIGINT or SIGTERM and return the exit code."""
    settings = read_settings()
    if target is None:
        raise Refusal(
            "`toolwright work` needs the app whose runs it executes. Name it, as in `toolwright work app:app`, or name "
            "a configuration file."
        )
    if not settings.work:
        raise Refusal(
            "`toolwright work` only executes runs, but TOOLWRIGHT_WORK is off. Remove that variable."
        )
    if settings.database_url.startswith(MEMORY):
        raise Refusal(
            "`toolwright work` executes the runs of a database that other processes serve. No other process can use a "
            "journal in memory: set TOOLWRIGHT_DATABASE_URL."
        )
    log_fully(settings.log_format, settings.log)
    warn_unknown_variables(os.environ)
    run(_work(served_app(target), settings, target))
    return 0


async def _work(app: App, settings: Settings, app_name: str) -> None:
    await wait_for_database(settings, gateway.DATABASE_PATIENCE)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with app.runtime(settings, grace=GRACE) as runtime:
        does = "executes" if runtime.driving else "waits to execute"
        print(f"Toolwright {does} the runs of {app_name}. Ctrl-C stops it.", flush=True)
        await ended.wait()
