"""`toolwright demo`: a gateway, an agent at work behind it, and what became of it."""

import asyncio
import shutil
import signal
import tempfile
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from toolwright.cli.calls_seen import table_of
from toolwright.cli.demo.caller import Caller
from toolwright.cli.demo.desk import demo_app
from toolwright.cli.keys import new_secret_key
from toolwright.cli.refusal import FAILED
from toolwright.cli.serving import Server, running
from toolwright.cli.settings import read_settings
from toolwright.cli.view import View
from toolwright.core.errors import MissingExtra
from toolwright.core.run import OVER
from toolwright.wiring.settings import Settings

HERE = Path(__file__).parent
QUESTION = "Who won most medals in Paris? Look into medals.csv, draw a chart and save a report."
PATIENCE = 60.0  # seconds


def play(*, keep: bool) -> int:
    """Play the demo; the exit code."""
    if find_spec("PIL") is None:
        raise MissingExtra('The demo draws with Pillow: pip install "toolwright[demo]".')
    folder = Path(tempfile.mkdtemp(prefix="toolwright-demo-"))
    for name in ("medals.csv", "app.py"):
        shutil.copy(HERE / name, folder / name)
    key = new_secret_key()
    settings = read_settings(
        database_url=f"sqlite:///{folder / 'toolwright.db'}",
        secret_keys=(key,),
        model=f"scripted:{HERE / 'script.yaml'}",
    )
    return asyncio.run(_play(folder, settings, key, keep=keep))


async def _play(folder: Path, settings: Settings, key: str, *, keep: bool) -> int:
    console = Console()
    async with running(demo_app(folder), settings, "127.0.0.1", 0) as server:
        console.print(f"A gateway runs at {server.url}, with a scripted model and real tools.\n", style="dim")
        view = View(console, "analyst")
        caller = Caller(server.url, key)
        try:
            async with asyncio.timeout(PATIENCE):
                ended = await _watch(caller, view, console)
        finally:
            await caller.close()
        console.print()
        console.print(table_of(view.calls))
        _print_places(console, folder)
        if keep:
            await _stay(console, server, key)
    return 0 if ended == "run.completed" else FAILED


async def _watch(caller: Caller, view: View, console: Console) -> str:
    """Ask the question and show its run; the run's last event."""
    thread_id = await caller.create_thread("analyst")
    run_id: str | None = None
    async with aclosing(caller.follow(thread_id)) as events:
        async for event in events:
            if run_id is None:  # the stream is open
                console.print("you  ", style="bold green", end="")
                console.print(QUESTION, markup=False, highlight=False, soft_wrap=True)
                run_id = await caller.send(thread_id, QUESTION)
            view.take(event.type, event.payload, event.at)
            if event.run_id == run_id and event.type.removeprefix("run.") in OVER:
                return event.type
    return "run.failed"


def _print_places(console: Console, folder: Path) -> None:
    say = [f"All of it is kept in {folder}"]
    kept = {
        "toolwright.db": "the journal: every message, call and result",
        "chart.png": "the chart",
        "report.md": "the report",
    }
    say += [f"  {name:<14} {what}" for name, what in kept.items() if (folder / name).exists()]
    say += [
        "",
        "The same agent with a real model:",
        '  pip install "toolwright[openai]" && export OPENAI_API_KEY=…',
        f"  cd {folder} && toolwright chat analyst --model openai:gpt-5-mini",
    ]
    console.print("\n".join(say), markup=False, highlight=False, soft_wrap=True)


async def _stay(console: Console, server: Server, key: str) -> None:
    """Leave the server up until Ctrl-C."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # no signal handlers on this system
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    say = f"\nThe gateway stays at {server.url} until Ctrl-C, its API at {server.url}/docs.\n"
    say += f"  curl -H 'x-secret-key: {key}' {server.url}/api/runs"
    console.print(say, markup=False, highlight=False, soft_wrap=True)
    await stop.wait()
