"""Elements with their own template: a message of a space, and its text."""

from collections.abc import Awaitable, Callable

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from toolwright.core.json_value import JSONObject


class Prose(Element, component="prose.js"):
    """A text with line breaks, fenced code and web links. It contains no markup."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.props["content"] = content


Press = Callable[[], Awaitable[object] | object]


class MessageFrame(Element, component="message.js"):
    """Frame of a message: author, time, the message it replies to, reactions. Its slot contains the content."""

    def __init__(self, message: JSONObject) -> None:
        super().__init__()
        self.props["message"] = message

    def on_react(self, handler: Callable[[str], Awaitable[object]]) -> None:
        """Register a handler for added and removed reactions."""

        async def react(event: GenericEventArguments) -> None:
            if isinstance(event.args, str):
                await handler(event.args)

        self.on("react", react)
