"""Questions at the terminal: approvals, questions of handlers and MCP servers, and calls that wait for a result."""

import json
import sys
from collections.abc import Mapping
from typing import cast

from rich.console import Console

from toolwright.cli.chat.view import Lines, spelled
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.state.questions import question_of
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
        """Show the text."""
        self._console.print(clean_text(text), end=end, markup=False, highlight=False, soft_wrap=True)


DECLINE = "/no"


async def filled(terminal: Terminal, schema: JSON, given: Mapping[str, JSON]) -> JSONObject | str | None:
    """Read the fields from the terminal. An empty line keeps a field of `given`.

    `DECLINE` if that is typed, None at the end of the input.
    """
    content: JSONObject = {**given}
    for name, each in fields_of(schema).items():
        default = {**each, "default": given[name]} if name in given else each
        line = await terminal.read(f"{name} ({_kind(default)})")
        if line is None or line == DECLINE:
            return line
        if line:
            content[name] = _value(line, each)
    return content


def fields_of(schema: JSON) -> Mapping[str, JSONObject]:
    """Return the fields of an object's schema, with their own."""
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
            return line  # is refused, in words
    return line


class Approvals:
    """Asks the terminal user to approve calls."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal

    async def put(self, call: Call) -> None:
        """Show the call with its arguments and submit the typed answer, unless it is answered elsewhere first."""
        terms = terms_from_json(call.terms)
        self._terminal.say(f" ? May {call.name}({spelled(call.arguments)}) be called?")
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
        """Return the answer, or None for a line that is none; the end of the lines refuses."""
        reason = " (and why)" if terms.reason else ""
        edit = " / [e]dit" if terms.edit else ""
        line = await self._terminal.read(f"[y]es / [n]o{reason}{edit}")
        if line is None:
            return {"approved": False}
        word, _, rest = line.partition(" ")
        match word.lower():
            case "y" | "yes":
                return {"approved": True}
            case "n" | "no":
                return {"approved": False, "reason": rest.strip()} if rest.strip() else {"approved": False}
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
    """Asks the terminal user, field by field."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal

    async def put(self, call: Call) -> None:
        """Show the question of a call and submit the typed answer. Other calls are ignored."""
        asked = question_of(call)
        if asked is None or is_over(call.status):
            return
        source = asked.get("source")
        self._terminal.say(f" ? {f'{source}: ' if source else ''}{asked['message']} ({DECLINE} declines)")
        if "url" in asked:
            self._terminal.say(f"   {asked['url']}")
        while True:
            try:
                await self._runtime.calls.submit(call.run_id, call.id, await self._answer(asked))
                return
            except InvalidRequest as error:
                self._terminal.say(f" · {error.message}")
            except (NotFound, AlreadyOver, CallExpired):
                return  # it has ended, or was answered elsewhere

    async def _answer(self, asked: JSONObject) -> JSONObject:
        """Return the answer, of which each line is a field; the end of the lines cancels."""
        schema = asked.get("requestedSchema")
        content = await self._content(schema)
        if not isinstance(content, dict):
            return {"action": "cancel" if content is None else "decline"}
        return {"action": "accept", "content": content}

    async def _content(self, schema: JSON) -> JSONObject | str | None:
        if fields_of(schema):
            return await filled(self._terminal, schema, {})
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
        """Show the call and submit the typed result. At the end of the input the call stays open for others."""
        schema = self._schema(call.name)
        form = f"{FORM} asks for its fields, " if fields_of(schema) else ""
        self._terminal.say(f" ? {call.name}({spelled(call.arguments)}) waits for its result.")
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
        """Return the result that the line means. Raises `EOFError` at the end of the lines."""
        word, _, rest = line.partition(" ")
        if word == DECLINE:
            return _declined(rest)
        if word != FORM:
            return _json_or_text(line)
        content = await filled(self._terminal, schema, _arguments(call))
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
