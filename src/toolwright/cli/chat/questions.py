"""Terminal prompts of a chat: approvals, questions of handlers and MCP servers, and results of waiting calls."""

import json
import sys
from collections.abc import Mapping
from typing import cast

from rich.console import Console

from toolwright.cli.chat.view import Lines, format_arguments
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.state import question_of
from toolwright.core.text import clean_text
from toolwright.core.threads.approval import Terms, terms_from_json
from toolwright.core.threads.call import Call, is_over
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime


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


DECLINE = "/no"


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
        self._terminal.say(f" ? May {call.name}({format_arguments(call.arguments)}) be called?")
        while True:
            answer = await self._answer(call, terms)
            if answer is None:
                continue
            try:
                await self._runtime.calls.submit(call.run_id, call.id, answer)
                return
            except InvalidRequest as error:
                self._terminal.say(f" · {error.message}")
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


class Questions:
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
                await self._runtime.calls.submit(call.run_id, call.id, await self._answer(question))
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


FORM = "/form"


class WaitingCalls:
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
                await self._runtime.calls.submit(call.run_id, call.id, result)
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
