"""Calls that wait for an approval, answered at the terminal."""

import json
from typing import cast

from toolwright.cli.chat.terminal import Terminal
from toolwright.cli.chat.view import spelled
from toolwright.core.errors import AlreadyOver, CallExpired, InvalidRequest, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.approval import Terms, terms_from_json
from toolwright.core.threads.call import Call
from toolwright.runtime.runtime import Runtime


class Approvals:
    """Asks whoever sits at the terminal whether a call may be made."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal

    async def put(self, call: Call) -> None:
        """Show the call with its arguments, and hand in what is typed; one that is answered meanwhile is left alone."""
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
                return  # it is over, or somebody else has answered

    async def _answer(self, call: Call, terms: Terms) -> JSONObject | None:
        """The answer, None for a line that is none; the end of the lines refuses."""
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
