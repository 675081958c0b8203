"""`toolwright serve`."""

import os

from toolwright.cli.loop import run
from toolwright.cli.output import log_fully
from toolwright.cli.serve.reload import serve_and_reload
from toolwright.cli.settings import read_settings, served_app, warn_of_variables
from toolwright.wiring import gateway
from toolwright.wiring.loading import DEFAULT_FILE


def serve(target: str | None, host: str, port: int, *, dev: bool) -> int:
    """Serve the app until Ctrl-C; the exit code."""
    if dev:
        return serve_and_reload(target, host, port)
    settings = read_settings()
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

    run(gateway.serve(app, settings, host=host, port=port, ready=ready))
    return 0
