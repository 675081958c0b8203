"""The field that messages are written in: Enter sends, Shift+Enter begins a line."""

from collections.abc import Awaitable, Callable
from typing import Final

from nicegui import ui
from nicegui.events import GenericEventArguments

LONGEST: Final = 100_000  # characters
_SEND: Final = """(event) => {
    if (event.shiftKey || event.isComposing) return;
    event.preventDefault();
    const field = event.target, now = Date.now();
    if (field.value === field.sentText && now - field.sentAt < 1500) return;
    [field.sentText, field.sentAt] = [field.value, now];
    emit(field.value);
}"""
"""A constant. A second Enter, pressed before the field was emptied, is none."""


def message_field(placeholder: str, send: Callable[[str], Awaitable[object]]) -> ui.textarea:
    """The field; `send` gets the text as it was typed, which may be before the server knows of the last key."""

    async def typed(event: GenericEventArguments) -> None:
        if isinstance(event.args, str):
            await send(event.args)

    field = ui.textarea(placeholder=placeholder).props("autogrow borderless dense")
    field.props["aria-label"] = "Message"
    field.props["data-focus"] = ""
    field.props["maxlength"] = LONGEST
    return field.on("keydown.enter", typed, js_handler=_SEND)
