"""`toolwright demo`: run a gateway and an agent, call them over HTTP, and show the result."""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import httpx2
from rich.console import Console

from toolwright.cli.demo.app import book, weather_service
from toolwright.cli.demo.desk import demo_app, host
from toolwright.cli.keys import new_secret_key
from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, INTERRUPTED, log_briefly
from toolwright.cli.settings import read_settings
from toolwright.cli.view import ChatView, call_table
from toolwright.core.errors import ToolwrightError, install
from toolwright.core.json_value import JSONObject
from toolwright.core.model import EXAMPLE_MODEL
from toolwright.core.text import sentence
from toolwright.core.threads.run import OVER
from toolwright.wiring.app import App
from toolwright.wiring.gateway import serve
from toolwright.wiring.settings import Settings

TIMEOUT = 30.0
QUESTION = "Who won most medals in Paris? Look into medals.csv, draw a chart and save a report."
PATIENCE = 60.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent:
    """An event received from the stream."""

    type: str
    payload: JSONObject
    at: datetime
    run_id: str | None


class GatewayCaller:
    """Calls one gateway with its secret key."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx2.AsyncClient(
            base_url=url, headers={"x-secret-key": key}, timeout=TIMEOUT, trust_env=False
        )

    async def create_thread(self, agent: str) -> str:
        """Create a thread and return its id."""
        return str((await self._post("/api/threads", {"agentId": agent}))["threadId"])

    async def send(self, thread_id: str, content: str) -> str:
        """Send a message and return the id of the run that reads it."""
        return str((await self._post(f"/api/threads/{thread_id}/messages", {"content": content}))["runId"])

    async def follow(self, thread_id: str) -> AsyncGenerator[ReceivedEvent]:
        """Yield the thread's events. No event after the first event, `connected`, is missed."""
        with _translated_errors():
            async with self._http.stream("GET", f"/api/threads/{thread_id}/stream") as stream:
                await _check(stream)
                async for line in stream.aiter_lines():
                    if line.startswith("data:"):
                        yield _event(json.loads(line.removeprefix("data:")))

    async def sign_in_path(self) -> str:
        """Return a path of the gateway that signs the user in at the console. It works once."""
        return str((await self._post("/console/links", {}))["path"])

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _post(self, path: str, body: JSONObject) -> JSONObject:
        with _translated_errors():
            response = await self._http.post(path, json=body)
            await _check(response)
        answer: JSONObject = response.json()
        return answer


@contextmanager
def _translated_errors() -> Generator[None]:
    try:
        yield
    except httpx2.HTTPError as error:
        raise ToolwrightError(
            sentence(f"The gateway cannot be reached: {str(error) or type(error).__name__}")
        ) from error


async def _check(response: httpx2.Response) -> None:
    if response.is_error:
        body = (await response.aread()).decode("utf-8", "replace")
        raise ToolwrightError(f"The gateway answered {response.status_code}: {body}")


def _event(event: JSONObject) -> ReceivedEvent:
    payload, run_id = event.get("data"), event.get("runId")
    return ReceivedEvent(
        type=str(event["type"]),
        payload=payload if isinstance(payload, dict) else {},
        at=datetime.fromisoformat(str(event["ts"])),
        run_id=run_id if isinstance(run_id, str) else None,
    )


HERE = Path(__file__).parent


def play(*, keep: bool) -> int:
    """Play the demo and return the exit code."""
    log_briefly()
    folder = Path(tempfile.mkdtemp(prefix="toolwright-demo-"))
    for name in ("medals.csv", "app.py"):
        shutil.copy(HERE / name, folder / name)
    key = new_secret_key()
    settings = read_settings(
        database_url=f"sqlite:///{folder / 'toolwright.db'}",
        secret_keys=(key,),
        model=f"scripted:{HERE / 'script.yaml'}",
        console=keep and find_spec("nicegui") is not None,
    )
    return run(_play(folder, settings, key, keep=keep))


async def _play(folder: Path, settings: Settings, key: str, *, keep: bool) -> int:
    with weather_service() as weather_url:
        return await _serve(folder, settings, key, demo_app(folder, host(weather_url)), keep=keep)


async def _serve(folder: Path, settings: Settings, key: str, app: App, *, keep: bool) -> int:
    console = Console()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(app, settings, port=0, ready=ready.set_result, grace=1.0), name="gateway"
    )
    await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving  # raises the error that ended it
        return INTERRUPTED
    try:
        code = await _show(console, folder, ready.result(), key, serving)
        if keep and not serving.done():
            link = await _sign_in_link(ready.result(), key) if settings.console else None
            _print_address(console, ready.result(), key, link)
            # A cancellation of this task must not cut the gateway off: it is stopped below.
            await asyncio.shield(serving)
        return code
    finally:
        if not serving.done():
            signal.raise_signal(signal.SIGTERM)  # stops the gateway as a user would
        await serving


async def _show(console: Console, folder: Path, url: str, key: str, serving: asyncio.Task[None]) -> int:
    """Print the run as it executes, then its result, and return the exit code."""
    console.print(f"A gateway runs at {url}, with a scripted model and real tools.\n", style="dim")
    view, caller = ChatView(console, "analyst"), GatewayCaller(url, key)
    watching = asyncio.create_task(_watch(caller, view, console), name="watch the run")
    try:
        done, _ = await asyncio.wait(
            [watching, serving], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
        )
        if watching not in done:
            return INTERRUPTED if serving in done else FAILED
        ended = await watching
    finally:
        watching.cancel()
        await caller.close()
    if ended is None:
        return INTERRUPTED
    console.print()
    console.print(call_table(view.calls))
    booking = asyncio.create_task(book(console, url, key), name="book a hotel")
    done, _ = await asyncio.wait([booking, serving], return_when=asyncio.FIRST_COMPLETED)
    if booking not in done:
        booking.cancel()
        await asyncio.wait([booking])
        return INTERRUPTED
    await booking
    console.print()
    _print_results(console, folder)
    return 0 if ended == "run.completed" else FAILED


async def _watch(caller: GatewayCaller, view: ChatView, console: Console) -> str | None:
    """Send the question and show its run. Return the run's last event type, or None if the server stopped first."""
    thread_id = await caller.create_thread("analyst")
    run_id: str | None = None
    async with aclosing(caller.follow(thread_id)) as events:
        async for event in events:
            if run_id is None:  # the stream is open
                console.print("you  ", style="bold green", end="")
                console.print(QUESTION, markup=False, highlight=False, soft_wrap=True)
                run_id = await caller.send(thread_id, QUESTION)
            view.show(event.type, event.payload, event.at)
            if event.run_id == run_id and event.type.removeprefix("run.") in OVER:
                return event.type
    return None


def _print_results(console: Console, folder: Path) -> None:
    lines = [f"The results are in {folder}"]
    files = {
        "toolwright.db": "the journal: every message, call and result",
        "chart.svg": "the chart",
        "report.md": "the report",
    }
    lines += [
        f"  {name:<14} {description}" for name, description in files.items() if (folder / name).exists()
    ]
    command, pip = "toolwright", "pip"
    if shutil.which(command) is None:  # not on the path: use the commands of this Python
        command, pip = f"{Path(sys.executable).parent / command}", f"{sys.executable} -m pip"
    lines += [
        "",
        "The same agent with a real model:",
        f'  {pip} install "pydantic-ai-slim[openai]" && export OPENAI_API_KEY=…',
        f"  cd {folder} && {command} chat analyst --model {EXAMPLE_MODEL}",
    ]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


async def _sign_in_link(url: str, key: str) -> str:
    caller = GatewayCaller(url, key)
    try:
        return url + await caller.sign_in_path()
    finally:
        await caller.close()


def _print_address(console: Console, url: str, key: str, link: str | None) -> None:
    text = f"\nThe gateway stays at {url} until Ctrl-C.\n"
    text += f"  curl -H 'x-secret-key: {key}' {url}/api/runs\n"
    if link is None:
        text += f"For the console in your browser: {install('console')}"
    else:
        text += (
            f"The console is at {url}/console. This link signs you in, once, within ten minutes:\n  {link}"
        )
    console.print(text, markup=False, highlight=False, soft_wrap=True)
