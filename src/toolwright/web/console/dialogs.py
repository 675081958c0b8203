"""Dialogs and forms: confirmations, messages, and values that a run or child waits for."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from toolwright.core.errors import NotFound, VariablesRequired
from toolwright.core.json_value import JSON, JSONObject
from toolwright.runtime.children.requests import RequestStatus
from toolwright.web.console.schema_form import ABSENT, Absence, SchemaForm
from toolwright.web.console.sign_in import SignInField, entry_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, plain_text

MAX_TEXT: Final = 100_000  # characters
_SEND: Final = """(event) => {
    if (event.shiftKey || event.isComposing) return;
    event.preventDefault();
    const field = event.target, now = Date.now();
    if (field.value === field.sentText && now - field.sentAt < 1500) return;
    [field.sentText, field.sentAt] = [field.value, now];
    emit(field.value);
}"""
"""A constant script. A second Enter before the field was cleared is ignored."""


async def variables_form(visit: Visit, thread_id: str, request_id: str) -> None:
    """Show a form for the missing variables of the thread's open request."""
    await VariablesForm(visit, thread_id, request_id).refresh()


class VariablesForm:
    """Form for the missing values of an open request. Values are never sent back to the page."""

    def __init__(self, visit: Visit, thread_id: str, request_id: str) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._request_id = request_id
        self._fields: dict[str, Element] = {}  # fields of the missing values
        self._values: Element | None = None
        self._refreshing = asyncio.Lock()  # an older read is never shown after a newer one
        self._card = box("section", "card stack")
        self._card.props["aria-label"] = "Values that are missing"

    async def refresh(self) -> None:
        """Show the currently missing variables. Remaining fields keep their input."""
        async with self._refreshing:
            self._show(await self._read())

    async def _read(self) -> RequestStatus | None:
        try:
            await self._visit.permits.request(self._visit.caller, self._thread_id, self._request_id)
            return await self._visit.runtime.requests.get(self._thread_id, self._request_id)
        except NotFound:
            return None

    def _show(self, request: RequestStatus | None) -> None:
        if request is not None and self._values is not None and self._fields.keys() >= {*request.missing}:
            for name in self._fields.keys() - {*request.missing}:
                self._fields.pop(name).delete()
            self._list_values(request, self._values)
            return
        self._card.clear()
        self._values = None
        with self._card:
            if request is None:
                plain_text("These values are no longer needed.", "p", "quiet")
            else:
                self._ask(request)

    def _ask(self, request: RequestStatus) -> None:
        plain_text("Values are missing", "h2")
        plain_text(
            f"{request.agent_name} continues once they are set. Secrets are stored encrypted.", "p", "quiet"
        )
        self._values = box("div", "row small")
        self._list_values(request, self._values)
        missing = [each for each in request.required if each.name in request.missing]
        fields = [
            SignInField(name=each.name, secret=each.type == "secret", hint=each.description)
            for each in missing
        ]
        self._fields = entry_form(fields, "Save", self._give)

    def _list_values(self, request: RequestStatus, place: Element) -> None:
        values = [each.name for each in request.required if each.name not in request.missing]
        place.visible = bool(values)
        with place.clear():
            plain_text("Already set:", "span", "quiet")
            for name in values:
                badge(name, "good")

    async def _give(self, entered: Mapping[str, str]) -> None:
        await self._visit.act(self._answer(entered), "The values are set.")

    async def _answer(self, entered: Mapping[str, str]) -> None:
        await self._visit.permits.request(self._visit.caller, self._thread_id, self._request_id)
        try:
            by = self._visit.caller.through("console")
            await self._visit.runtime.requests.answer(self._thread_id, self._request_id, entered, by=by)
        except (VariablesRequired, NotFound):  # the values are stored, or the request has ended
            await self.refresh()
            raise
        await self.refresh()


def message_field(placeholder: str, send: Callable[[str], Awaitable[object]]) -> ui.textarea:
    """Return the field. `send` gets the text from the browser, because the server's copy can be older."""

    async def typed(event: GenericEventArguments) -> None:
        if isinstance(event.args, str):
            await send(event.args)

    field = ui.textarea(placeholder=placeholder).props("autogrow borderless dense")
    field.props["aria-label"] = "Message"
    field.props["data-focus"] = ""
    field.props["maxlength"] = MAX_TEXT
    return field.on("keydown.enter", typed, js_handler=_SEND)


Submit = Callable[[JSONObject], Awaitable[object]]


@contextmanager
def opened(visit: Visit, title: str) -> Generator[ui.dialog]:
    """Yield a dialog, removed when it is closed or another view is shown. Its opener can be removed earlier."""
    with ui.context.client.content:
        dialog = ui.dialog()

    def end() -> None:
        if not dialog.is_deleted:
            dialog.delete()

    dialog.on("hide", end)
    visit.view.at_end(end)
    with dialog, ui.card().classes("dialog"), box("div", "stack"):
        plain_text(title, "h2")
        yield dialog
    dialog.open()


def cancel(dialog: ui.dialog, label: str = "Cancel") -> None:
    """Render a button that closes the dialog."""

    def close() -> None:
        dialog.close()  # `close` returns the dialog, which would be awaited

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
    """Ask for a confirmation, then call `go`. `label` and `keep` are the buttons; `done` is shown afterwards."""
    with opened(visit, question) as dialog:
        if hint:
            plain_text(hint, "p", "quiet")

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
    submit: Submit,
    *,
    values: JSON | Absence = ABSENT,
    label: str = "Save",
    done: str = "Saved.",
    hint: str = "",
) -> None:
    """Ask for the fields of the schema and pass them to `submit`. The dialog stays open until they are accepted."""
    with opened(visit, title) as dialog:
        if hint:
            plain_text(hint, "p", "quiet")
        form = SchemaForm(schema, values)

        async def send() -> None:
            await submit(form.value())

        async def save() -> None:
            if await visit.act(send(), done):
                dialog.close()

        with box("div", "row"):
            action(label, save, kind="primary")
            cancel(dialog)
