"""Stub."""

from typing import Any

from toolwright.web.console.widgets import box, code, json_text, words


class CallCard:
    def __init__(self, visit: Any) -> None:
        self.visit = visit
        self._box = box("div", "call")

    async def show_message(self, call: Any, space_id: str) -> None:
        with self._box.clear():
            words(call["toolName"], "h3")
            words(call["status"], "span", "badge")
            code(json_text(call["args"]))
