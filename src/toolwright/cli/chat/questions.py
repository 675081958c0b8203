"""Questions of handlers and MCP servers, answered at the terminal."""

from toolwright.cli.chat.form import DECLINE, fields_of, filled
from toolwright.cli.chat.terminal import Terminal
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.state.elicitation import question_of
from toolwright.core.threads.call import Call, is_over
from toolwright.runtime.runtime import Runtime


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
