"""Dialogs, and fields for messages."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

from nicegui import ui
from nicegui.events import GenericEventArguments

from toolwright.core.json_value import JSON, JSONObject
from toolwright.web.console.schema_form import ABSENT, Absence, SchemaForm
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, words

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


Take = Callable[[JSONObject], Awaitable[object]]


@contextmanager
def opened(visit: Visit, title: str) -> Generator[ui.dialog]:
    """A dialog that is gone once it is closed, or another view is shown; what has opened it may go before."""
    with ui.context.client.content:
        dialog = ui.dialog()

    def end() -> None:
        if not dialog.is_deleted:
            dialog.delete()

    dialog.on("hide", end)
    visit.view.at_end(end)
    with dialog, ui.card().classes("dialog"), box("div", "stack"):
        words(title, "h2")
        yield dialog
    dialog.open()


def cancel(dialog: ui.dialog, label: str = "Cancel") -> None:
    """A button that closes the dialog."""

    def close() -> None:
        dialog.close()  # which gives the dialog itself, and that could be waited for

    action(label, close)


def confirm(
    visit: Visit,
    question: str,
    label: str,
    go: Callable[[], Awaitable[object]],
    *,
    done: str | None = None,
    hint: str = "",
    keep: str = "Cancel",
) -> None:
    """Ask, and go if the answer is yes; `label` is that answer, `keep` the other; `done` is said when it is done."""
    with opened(visit, question) as dialog:
        if hint:
            words(hint, "p", "quiet")

        async def yes() -> None:
            if await visit.act(go(), done):
                dialog.close()

        with box("div", "row"):
            action(label, yes, kind="danger")
            cancel(dialog, keep)


def fill_in(
    visit: Visit,
    title: str,
    schema: JSONObject,
    take: Take,
    *,
    values: JSON | Absence = ABSENT,
    label: str = "Save",
    done: str = "Saved.",
    hint: str = "",
) -> None:
    """Ask for what the schema describes; `take` is given it, and the dialog stays until it was taken."""
    with opened(visit, title) as dialog:
        if hint:
            words(hint, "p", "quiet")
        form = SchemaForm(schema, values)

        async def send() -> None:
            await take(form.value())

        async def save() -> None:
            if await visit.act(send(), done):
                dialog.close()

        with box("div", "row"):
            action(label, save, kind="primary")
            cancel(dialog)
