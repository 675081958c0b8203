"""Questions of handlers and MCP servers, answered at the terminal."""

import json
from collections.abc import Mapping
from typing import cast

from toolwright.cli.chat.terminal import Terminal
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.state.elicitation import question_of
from toolwright.core.threads.call import Call, is_over
from toolwright.runtime.runtime import Runtime

DECLINE = "/no"


class Questions:
    """Asks whoever sits at the terminal, field by field."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal

    async def put(self, call: Call) -> None:
        """Show what that call asks, and hand in what is typed; a call that is no question is left alone."""
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
                return  # it is over, or somebody else has answered

    async def _answer(self, asked: JSONObject) -> JSONObject:
        """The answer, of which each line is a field; the end of the lines cancels."""
        fields = _fields(asked)
        content: JSONObject = {}
        for name, schema in fields.items():
            line = await self._terminal.read(f"{name} ({_kind(schema)})")
            if line is None or line == DECLINE:
                return {"action": "cancel" if line is None else "decline"}
            if line:
                content[name] = _value(line, schema)
        if not fields:
            line = await self._terminal.read("Enter agrees")
            if line is None or line == DECLINE:
                return {"action": "cancel" if line is None else "decline"}
        return {"action": "accept", "content": content}


def _fields(asked: JSONObject) -> Mapping[str, JSONObject]:
    """The fields that are to be entered, with their schemas."""
    schema = asked.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: each if isinstance(each, dict) else {} for name, each in properties.items()}


def _kind(schema: JSONObject) -> str:
    """What may be entered, in a few words."""
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
