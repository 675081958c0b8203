"""`toolwright mcp`: the app's tools on stdio, for a host that starts this process and ends it."""

import os
import sys
from typing import BinaryIO

from toolwright.cli.loop import run
from toolwright.cli.output import Refusal, log_fully
from toolwright.cli.settings import read_settings, served_app, the_app, warn_of_variables
from toolwright.wiring.app import App
from toolwright.wiring.lazy import open_mcp
from toolwright.wiring.settings import Settings


def serve_tools(target: str | None) -> int:
    """Serve until stdin closes; the exit code. Logs, and all that anybody prints, go to stderr."""
    host = _take_over()
    settings = read_settings()
    log_fully(settings.log_format, settings.log)
    warn_of_variables(os.environ)
    app = served_app(target) if target is not None and target.endswith(".json") else the_app(target)
    run(_serve(app, settings, *host))
    return 0


async def _serve(app: App, settings: Settings, stdin: BinaryIO, stdout: BinaryIO) -> None:
    server = open_mcp()
    async with app.runtime(settings, grace=1.0) as runtime:
        await server.serve_stdio(runtime, stdin, stdout, app.mcp_server)


def _take_over() -> tuple[BinaryIO, BinaryIO]:
    """The host's ends of stdin and stdout, for the protocol alone: an app that is loaded may print, or read.

    Raises `Refusal` where one of them is closed.
    """
    for name, stream in (("stdin", sys.__stdin__), ("stdout", sys.__stdout__)):
        if stream is None:  # what Python makes of one that is closed
            raise Refusal(f"An MCP host talks to this command by stdin and stdout, and {name} is closed.")
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return stdin, stdout
