"""Calls that wait for somebody's result, answered at the terminal."""

import json
from collections.abc import Mapping
from typing import cast

from toolwright.cli.chat.form import DECLINE, fields_of, filled
from toolwright.cli.chat.terminal import Terminal
from toolwright.cli.chat.view import spelled
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.result import ToolResult
from toolwright.core.threads.call import Call
from toolwright.core.tools.tool import Tool
from toolwright.runtime.runtime import Runtime

FORM = "/form"


class WaitingCalls:
    """Asks whoever sits at the terminal for the results of calls; `tools` are the agent's, by name."""

    def __init__(self, runtime: Runtime, terminal: Terminal, tools: Mapping[str, Tool]) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._tools = tools

    async def put(self, call: Call) -> None:
        """Show the call, and hand in what is typed; at the end of the lines it is left to whoever else may answer."""
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
                return  # nothing more is typed; or it is over, or somebody else has answered

    async def _result(self, line: str, call: Call, schema: JSONObject) -> JSON | ToolResult:
        """The result that the line means. Raises `EOFError` at the end of the lines."""
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
    """The arguments of a call, which were validated to be an object."""
    return cast("JSONObject", json.loads(call.arguments or "{}"))
