"""`toolwright chat AGENT`: a conversation with an agent at the terminal."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from typing import Any

from rich.console import Console

from toolwright.cli.chat.questions import Approvals, Questions, Terminal, WaitingCalls
from toolwright.cli.chat.view import ChatView, Lines
from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, INTERRUPTED, Refusal, log_briefly
from toolwright.cli.settings import read_settings, the_app, warn_unknown_variables
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.errors import AlreadyOver, InvalidRequest, NotFound, ToolwrightError
from toolwright.core.json_value import JSONObject
from toolwright.core.state.state import ELICIT
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import OVER
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime
from toolwright.wire.message import message_json
from toolwright.wiring.app import App
from toolwright.wiring.lazy import NamedModels
from toolwright.wiring.settings import Settings

_QUIT = ("/quit", "/exit")


class Conversation:
    """Conversation with an agent in one thread. `hold` talks until the input ends, `interrupt` handles Ctrl-C."""

    def __init__(
        self, runtime: Runtime, thread: Thread, tools: Mapping[str, Tool], view: ChatView, console: Console
    ) -> None:
        self._runtime = runtime
        self._thread = thread
        self._tools = tools
        self._view = view
        self._console = console
        self._over: dict[str, str] = {}
        self._run_ended = asyncio.Event()
        self._waiting_calls: asyncio.Queue[str] = asyncio.Queue()  # ids of calls that may need input
        self._settled: dict[str, asyncio.Event] = {}  # by call id: set once the call needs no answer any more
        self._quit = asyncio.Event()
        self._busy = False
        self._cancelling: asyncio.Task[None] | None = None

    async def hold(self, lines: Lines) -> int:
        """Talk until the input ends. Return the exit code: 1 if the last run failed, 130 after Ctrl-C."""
        watching = asyncio.create_task(self._watch(), name="watch the thread")
        talking = asyncio.create_task(self._talk(lines), name="talk")
        quitting = asyncio.create_task(self._quit.wait(), name="wait for Ctrl-C")
        tasks: list[asyncio.Task[Any]] = [watching, talking, quitting]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if watching in done:
                return watching.result()  # raises the error that ended it
            # Ctrl-C determines the exit code even if the input ends at the same time.
            return INTERRUPTED if self._quit.is_set() else talking.result()
        finally:
            if self._cancelling is not None:
                tasks.append(self._cancelling)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def interrupt(self) -> None:
        """Cancel the run. Without a run, or the second time, end the conversation."""
        if self._busy and self._cancelling is None:
            self._console.print("\n · cancelling; Ctrl-C again quits", style="yellow")
            self._cancelling = asyncio.create_task(self._cancel(), name="cancel the run")
        else:
            self._quit.set()

    async def _talk(self, lines: Lines) -> int:
        code = 0
        while True:
            if sys.stdin.isatty():
                self._console.print("you  ", style="bold green", end="")
            line = await lines.next()
            if line is None or line.strip() in _QUIT:
                self._console.print()
                return code
            if not sys.stdin.isatty():
                self._console.print(f"you  {line}", markup=False, highlight=False, soft_wrap=True)
            if line.strip():
                code = FAILED if await self._ask(line, lines) == "run.failed" else 0

    async def _ask(self, text: str, lines: Lines) -> str:
        """Send a message, wait until its run has finished, and return the type of the run's last event."""
        self._busy = True
        answering = asyncio.create_task(self._answer(lines), name="answer questions")
        try:
            run = await self._runtime.threads.send(self._thread.id, text)
            while run.id not in self._over:
                self._run_ended.clear()
                await self._run_ended.wait()
            return self._over[run.id]
        except InvalidRequest as error:
            self._console.print(f" · {error.message}", style="red", markup=False)
            return "refused"
        finally:
            answering.cancel()
            self._settled.clear()
            self._busy = False
            self._cancelling = None

    async def _answer(self, lines: Lines) -> None:
        """Ask the terminal user for approvals, answers and results that the run waits for, one after another.

        A prompt is withdrawn as soon as the call is answered elsewhere.
        """
        terminal = Terminal(self._console, lines)
        while True:
            call_id = await self._waiting_calls.get()
            putting = asyncio.create_task(self._ask_user(call_id, terminal), name="put a question")
            settled = asyncio.create_task(self._settled.setdefault(call_id, asyncio.Event()).wait())
            try:
                await asyncio.wait([putting, settled], return_when=asyncio.FIRST_COMPLETED)
            finally:
                putting.cancel()
                settled.cancel()

    async def _ask_user(self, call_id: str, terminal: Terminal) -> None:
        """Ask the terminal user for the input that the call waits for, if the user can provide it."""
        try:
            call = await self._runtime.calls.get(call_id)
            if call.awaits_approval:
                await Approvals(self._runtime, terminal).put(call)
            elif call.name == ELICIT:
                await Questions(self._runtime, terminal).put(call)
            elif call.status == "waiting" and call.kind in ("external", "space"):
                await WaitingCalls(self._runtime, terminal, self._tools).put(call)
        except ToolwrightError as error:
            self._console.print(f" · {error.message}", style="red", markup=False)

    async def _cancel(self) -> None:
        with suppress(NotFound, AlreadyOver):  # the run has finished in the meantime
            await self._runtime.threads.cancel(self._thread.id)

    async def _watch(self) -> int:
        """Show the thread's events as they arrive, without end."""
        async for event in self._runtime.events.follow(Topic(kind="thread", id=self._thread.id), after=0):
            self._view.show(event.type, await self._full_payload(event), event.at.astimezone(UTC))
            call_id = str(event.payload.get("toolCallId"))
            if event.type in ("tool.started", "tool.waiting"):
                self._settled.pop(call_id, None)  # an approved call can wait again
                self._waiting_calls.put_nowait(call_id)
            elif event.type in ("tool.done", "tool.error", "tool.approved"):
                self._settled.setdefault(call_id, asyncio.Event()).set()
            if event.run_id is not None and event.type.removeprefix("run.") in OVER:
                self._over[event.run_id] = event.type
                self._run_ended.set()
        return FAILED

    async def _full_payload(self, event: Event) -> JSONObject:
        """Return the event's payload. A message too large for an event is fetched."""
        message = event.payload.get("message")
        if not event.payload.get("truncated") or not isinstance(message, dict):
            return event.payload
        seq = message.get("seq")
        if not isinstance(seq, int):
            return event.payload
        messages = await self._runtime.threads.messages(self._thread.id, limit=1, offset=seq - 1)
        return {"message": message_json(messages[0])} if messages else event.payload


GRACE = 1.0  # seconds for calls in progress when the conversation ends; the run continues at the next start


def chat(name: str, model: str | None, target: str | None) -> int:
    """Talk to the agent on the configured database and return the exit code."""
    log_briefly()
    logging.getLogger("toolwright.runs").setLevel(logging.ERROR)  # the conversation shows failed runs
    warn_unknown_variables(os.environ)
    app = the_app(target)
    settings = read_settings(**({} if model is None else {"model": model}))
    try:
        agent = app.catalog.agent(name)
    except NotFound as error:
        raise Refusal(error.message) from error
    if model is not None:
        app.catalog = app.catalog.with_model(agent.id, model)
    return run(_chat(app, agent.id, settings))


async def _chat(app: App, agent_id: str, settings: Settings) -> int:
    active = app.catalog.active(agent_id)
    model = active.model or settings.model
    if model is None:
        raise Refusal(
            f"The agent {active.agent.name!r} has no model: add --model, or set TOOLWRIGHT_MODEL.", 1
        )
    if isinstance(model, str):
        await _check(model)
    async with app.runtime(settings, grace=GRACE) as runtime:
        return await _converse(runtime, active, _model_name(model))


def _model_name(model: object) -> str:
    return model if isinstance(model, str) else str(getattr(model, "name", type(model).__name__))


async def _check(model: str) -> None:
    """Create the model once, so that an unusable one is reported before the conversation begins."""
    models = NamedModels()
    await models(model)
    await models.aclose()


async def _converse(runtime: Runtime, active: ActiveAgent, model: str) -> int:
    console = Console()
    agent = await runtime.agents.get(active.agent_id)
    thread = await runtime.threads.create(active.agent_id)
    conversation = Conversation(runtime, thread, active.by_name, ChatView(console, agent.name), console)
    with suppress(NotImplementedError):  # this system's event loop has no signal handlers
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, conversation.interrupt)
    # The model is unknown here if another process executes the runs: that process has its own settings.
    parts = [agent.name, *([model] if runtime.driving else []), thread.id]
    console.print(" · ".join(parts), style="dim", markup=False, highlight=False, soft_wrap=True)
    lines = Lines()
    lines.start()
    try:
        return await conversation.hold(lines)
    finally:
        lines.stop()
