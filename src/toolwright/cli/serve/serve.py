"""`toolwright serve` and `toolwright work`."""

import asyncio
import os
import signal

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, log_fully
from toolwright.cli.serve.reload import serve_and_reload
from toolwright.cli.settings import read_settings, served_app, warn_of_variables
from toolwright.wiring import gateway
from toolwright.wiring.app import App
from toolwright.wiring.loading import DEFAULT_FILE
from toolwright.wiring.settings import MEMORY, Settings

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
