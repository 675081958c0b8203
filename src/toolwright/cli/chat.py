"""`toolwright chat AGENT`: a conversation at the terminal, with approvals, questions and results of waiting calls."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from typing import Any, cast

from rich.console import Console

from toolwright.cli.loop import run
from toolwright.cli.output import FAILED, INTERRUPTED, Refusal, log_briefly, one_line
from toolwright.cli.settings import declared, operator, read_settings, the_app, warn_unknown_variables
from toolwright.cli.view import ChatView, Lines, format_arguments
from toolwright.core.agents.active import ActiveAgent
from toolwright.core.agents.agent import Agent
from toolwright.core.agents.deps import deps_type
from toolwright.core.errors import (
    AlreadyOver,
    CallExpired,
    DefinitionChanged,
    InvalidRequest,
    NotFound,
    OtherDeps,
    ToolwrightError,
)
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ELICIT, question_of
from toolwright.core.text import clean_text
from toolwright.core.threads.approval import Terms, terms_from_json
from toolwright.core.threads.call import Call, is_over
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import OVER
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime
from toolwright.wire.message import Message
from toolwright.wiring.app import App
from toolwright.wiring.lazy import NamedModels
from toolwright.wiring.settings import Settings

DECLINE = "/no"
FORM = "/form"
_QUIT = ("/quit", "/exit")
GRACE = 1.0  # seconds for calls in progress when the conversation ends; the run continues at the next start


class Terminal:
    """Terminal prompts. Input that does not come from a terminal is echoed."""

    def __init__(self, console: Console, lines: Lines) -> None:
        self._console = console
        self._lines = lines

    async def read(self, label: str) -> str | None:
        """Print a label and read one line, or None at the end of the input."""
        if sys.stdin.isatty():
            self.say(f"   {label}: ", end="")
        line = await self._lines.next()
        if not sys.stdin.isatty():
            self.say(f"   {label}: {line or ''}")
        return None if line is None else line.strip()

    def say(self, text: str, end: str = "\n") -> None:
        """Print the text without terminal control characters."""
        self._console.print(clean_text(text), end=end, markup=False, highlight=False, soft_wrap=True)


async def read_fields(
    terminal: Terminal, schema: JSON, defaults: Mapping[str, JSON]
) -> JSONObject | str | None:
    """Read an object's fields from the terminal, one line each. An empty line keeps the field's default.

    Return the object, `DECLINE` if the user types it, or None at the end of the input.
    """
    content: JSONObject = {**defaults}
    for name, each in schema_fields(schema).items():
        default = {**each, "default": defaults[name]} if name in defaults else each
        line = await terminal.read(f"{name} ({_kind(default)})")
        if line is None or line == DECLINE:
            return line
        if line:
            content[name] = _value(line, each)
    return content


def schema_fields(schema: JSON) -> Mapping[str, JSONObject]:
    """Return the schema of each field of an object schema; empty for any other schema."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: each if isinstance(each, dict) else {} for name, each in properties.items()}


def _kind(schema: JSONObject) -> str:
    """Describe the expected input in a few words."""
    choices = schema.get("enum")
    kind = " or ".join(map(str, choices)) if isinstance(choices, list) else str(schema.get("type", "text"))
    kind = {"string": "text", "boolean": "true or false"}.get(kind, kind)
    return f"{kind}; {schema['default']!r} unless given" if "default" in schema else kind


def _value(line: str, schema: JSONObject) -> JSON:
    if schema.get("type") in ("boolean", "integer", "number", "array", "object"):
        try:
            return cast("JSON", json.loads(line))
        except ValueError:
            return line  # the runtime rejects it with a message for the user
    return line


class Approvals:
    """Asks the terminal user to approve calls."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal

    async def put(self, call: Call) -> None:
        """Show the call with its arguments and submit the typed answer. Return early if it is answered elsewhere."""
        terms = terms_from_json(call.terms)
        why = "" if terms.why is None else f" {one_line(terms.why)}"
        self._terminal.say(f" ? May {call.name}({format_arguments(call.arguments)}) be called?{why}")
        while True:
            answer = await self._answer(call, terms)
            if answer is None:
                continue
            try:
                await self._runtime.calls.submit(call.run_id, call.id, answer, by=operator())
                return
            except InvalidRequest as error:
                self._terminal.say(f" · {error.message}")
            except DefinitionChanged as error:
                self._terminal.say(f" · {error.message}")
                return  # it is asked again
            except (NotFound, AlreadyOver, CallExpired):
                return  # it has ended, or was answered elsewhere

    async def _answer(self, call: Call, terms: Terms) -> JSONObject | None:
        """Return the answer, or None if the line is not one. The end of the input counts as a refusal."""
        reason = " (and why)" if terms.reason else ""
        edit = " / [e]dit" if terms.edit else ""
        line = await self._terminal.read(f"[y]es / [n]o{reason}{edit}")
        if line is None:
            return {"approved": False}
        command, _, reason_text = line.partition(" ")
        match command.lower():
            case "y" | "yes":
                return {"approved": True}
            case "n" | "no":
                said = reason_text.strip()
                return {"approved": False, "reason": said} if said else {"approved": False}
            case "e" | "edit" if terms.edit:
                return await self._edited(call)
            case _:
                return None

    async def _edited(self, call: Call) -> JSONObject | None:
        self._terminal.say(f"   {call.arguments}")
        line = await self._terminal.read("arguments (JSON)")
        if not line:
            return None
        try:
            return {"approved": True, "args": cast("JSON", json.loads(line))}
        except ValueError as error:
            self._terminal.say(f" · This is not valid JSON: {error}.")
            return None


class QuestionPrompts:
    """Asks the terminal user the questions of handlers and MCP servers, field by field."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal

    async def put(self, call: Call) -> None:
        """Show the question of a call and submit the typed answer. Other calls are ignored."""
        question = question_of(call)
        if question is None or is_over(call.status):
            return
        source = question.get("source")
        self._terminal.say(f" ? {f'{source}: ' if source else ''}{question['message']} ({DECLINE} declines)")
        if "url" in question:
            self._terminal.say(f"   {question['url']}")
        while True:
            try:
                answer = await self._answer(question)
                await self._runtime.calls.submit(call.run_id, call.id, answer, by=operator())
                return
            except InvalidRequest as error:
                self._terminal.say(f" · {error.message}")
            except (NotFound, AlreadyOver, CallExpired):
                return  # it has ended, or was answered elsewhere

    async def _answer(self, question: JSONObject) -> JSONObject:
        """Return the answer, read one line per field. The end of the input cancels the question."""
        schema = question.get("requestedSchema")
        content = await self._content(schema)
        if not isinstance(content, dict):
            return {"action": "cancel" if content is None else "decline"}
        return {"action": "accept", "content": content}

    async def _content(self, schema: JSON) -> JSONObject | str | None:
        if schema_fields(schema):
            return await read_fields(self._terminal, schema, {})
        line = await self._terminal.read("Enter agrees")
        return line if line is None or line == DECLINE else {}


class ResultPrompts:
    """Asks the terminal user for the results of calls; `tools` are the agent's, by name."""

    def __init__(self, runtime: Runtime, terminal: Terminal, tools: Mapping[str, Tool]) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._tools = tools

    async def put(self, call: Call) -> None:
        """Show the call and submit the typed result. At the end of the input the call remains open."""
        schema = self._schema(call.name)
        form = f"{FORM} asks for its fields, " if schema_fields(schema) else ""
        self._terminal.say(f" ? {call.name}({format_arguments(call.arguments)}) waits for its result.")
        while True:
            line = await self._terminal.read(f"text or JSON ({form}{DECLINE} declines)")
            if line is None:
                return
            if not line:
                continue
            try:
                result = await self._result(line, call, schema)
                await self._runtime.calls.submit(call.run_id, call.id, result, by=operator())
                return
            except InvalidRequest as error:
                self._terminal.say(f" · {error.message}")
            except (EOFError, NotFound, AlreadyOver, CallExpired):
                return  # end of the input; or it has ended, or was answered elsewhere

    async def _result(self, line: str, call: Call, schema: JSONObject) -> JSON | ToolResult:
        """Return the result typed in the line. Raises `EOFError` at the end of the input."""
        command, _, text = line.partition(" ")
        if command == DECLINE:
            return _declined(text)
        if command != FORM:
            return _json_or_text(line)
        content = await read_fields(self._terminal, schema, _arguments(call))
        if content is None:
            raise EOFError
        return _declined("") if isinstance(content, str) else content

    def _schema(self, name: str) -> JSONObject:
        tool = self._tools.get(name)
        return {} if tool is None else tool.parameters


def _declined(reason: str) -> ToolResult:
    return ToolResult.fail(reason.strip() or "Declined.", error_code="declined")


def _json_or_text(line: str) -> JSON:
    try:
        return cast("JSON", json.loads(line))
    except ValueError:
        return line


def _arguments(call: Call) -> JSONObject:
    """Return the arguments of a call, which were validated to be an object."""
    return cast("JSONObject", json.loads(call.arguments or "{}"))


class TerminalChat:
    """Conversation with an agent in one thread. `hold` talks until the input ends, `interrupt` handles Ctrl-C."""

    def __init__(
        self,
        runtime: Runtime,
        thread: Thread,
        tools: Mapping[str, Tool],
        view: ChatView,
        console: Console,
        deps: JSONObject | None = None,
    ) -> None:
        self._runtime = runtime
        self._thread = thread
        self._tools = tools
        self._view = view
        self._deps = deps
        self._console = console
        self._over: dict[str, str] = {}
        self._run_ended = asyncio.Event()
        self._waiting_calls: asyncio.Queue[str] = asyncio.Queue()  # ids of calls that may need input
        self._settled: dict[str, asyncio.Event] = {}  # by call id: set once the call needs no answer any more
        self._quit = asyncio.Event()
        self._busy = False
        self._prompting = False  # whether a prompt is on the last line of the terminal
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
            run = await self._runtime.threads.send(self._thread.id, text, deps=self._deps, by=operator())
            while run.id not in self._over:
                self._run_ended.clear()
                await self._run_ended.wait()
            return self._over[run.id]
        except (InvalidRequest, OtherDeps) as error:
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
            prompt = self._prompt(call, terminal)
            self._prompting = prompt is not None
            if prompt is not None:
                await prompt.put(call)
        except ToolwrightError as error:
            self._console.print(f" · {error.message}", style="red", markup=False)
        finally:
            self._prompting = False

    def _prompt(self, call: Call, terminal: Terminal) -> Approvals | QuestionPrompts | ResultPrompts | None:
        """Return the prompt for the input that the call waits for, or None if the user cannot provide it."""
        if call.awaits_approval:
            return Approvals(self._runtime, terminal)
        if call.name == ELICIT:
            return QuestionPrompts(self._runtime, terminal)
        if call.status == "waiting" and call.kind in ("external", "space"):
            return ResultPrompts(self._runtime, terminal, self._tools)
        return None

    async def _cancel(self) -> None:
        with suppress(NotFound, AlreadyOver):  # the run has finished in the meantime
            await self._runtime.threads.cancel(self._thread.id)

    async def _watch(self) -> int:
        """Show the thread's events as they arrive, without end."""
        async for event in self._runtime.events.follow(Topic(kind="thread", id=self._thread.id), after=0):
            if not self._is_asked(event):
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

    def _is_asked(self, event: Event) -> bool:
        """Return whether the event reports that the run waits for input that the terminal user is prompted for."""
        waiting = event.payload.get("waiting")
        if event.type != "run.waiting" or not isinstance(waiting, dict):
            return False
        return self._prompting or waiting.get("reason") == "approval"

    async def _full_payload(self, event: Event) -> JSONObject:
        """Return the event's payload. A message too large for an event is fetched."""
        message = event.payload.get("message")
        if not event.payload.get("truncated") or not isinstance(message, dict):
            return event.payload
        seq = message.get("seq")
        if not isinstance(seq, int):
            return event.payload
        messages = await self._runtime.threads.messages(self._thread.id, limit=1, offset=seq - 1)
        return {"message": Message.of(messages[0])} if messages else event.payload


def chat(name: str, model: str | None, target: str | None, deps: str | None = None) -> int:
    """Talk to the agent on the configured database and return the exit code."""
    log_briefly()
    logging.getLogger("toolwright.runs").setLevel(logging.ERROR)  # the conversation shows failed runs
    warn_unknown_variables(os.environ)
    app = the_app(target)
    known = declared(app)
    settings = read_settings(**({} if model is None else {"model": model}))
    try:
        agent = known.catalog.agent(name)
    except NotFound as error:
        raise Refusal(error.message) from error
    if model is not None:
        if known is not app:
            raise Refusal(f"--model only applies to an app in Python: change the agent's model in {target}.")
        app.catalog = app.catalog.with_model(agent.id, model)
    given = None if deps is None else _read_deps(agent, deps)
    return run(_chat(app, known.catalog.active(agent.id), settings, given))


def _read_deps(agent: Agent, text: str) -> JSONObject:
    """Return the value of `--deps`. Raises `Refusal` if it does not fit the agent."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Refusal("--deps must be a JSON object.")
    if agent.deps is None:
        raise Refusal(f"The agent {agent.name!r} declares no deps, so --deps must be left out.")
    try:
        return deps_type(agent.deps).dump(cast("JSONObject", value))
    except InvalidRequest as error:
        raise Refusal(error.message) from error


async def _chat(app: App, active: ActiveAgent, settings: Settings, deps: JSONObject | None) -> int:
    model = active.model or settings.model
    if model is None:
        raise Refusal(
            f"The agent {active.agent.name!r} has no model: add --model, or set TOOLWRIGHT_MODEL.", 1
        )
    if isinstance(model, str):
        await _check(model)
    async with app.runtime(settings, grace=GRACE) as runtime:
        if app.catalog.find(active.agent_id) is None:  # an agent of a configuration file is known by its row
            active = await runtime.agents.active(active.agent.name)
        return await _converse(runtime, active, _model_name(model), deps)


def _model_name(model: object) -> str:
    return model if isinstance(model, str) else str(getattr(model, "name", type(model).__name__))


async def _check(model: str) -> None:
    """Create the model once, so that an unusable one is reported before the conversation begins."""
    models = NamedModels()
    await models(model)
    await models.aclose()


async def _converse(runtime: Runtime, active: ActiveAgent, model: str, deps: JSONObject | None) -> int:
    console = Console()
    agent = await runtime.agents.get(active.agent_id)
    thread = await runtime.threads.create(active.agent_id)
    view = ChatView(console, agent.name)
    conversation = TerminalChat(runtime, thread, active.by_name, view, console, deps)
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
