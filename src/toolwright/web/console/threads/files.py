"""Files and variables of a thread."""

from collections.abc import Mapping
from functools import partial
from typing import Final, cast

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from toolwright.core.env.env import EnvInput
from toolwright.core.errors import InvalidRequest
from toolwright.core.files import File
from toolwright.core.text import brief
from toolwright.core.threads.thread import Thread
from toolwright.web.console.runs.calls import MAX_PREVIEW
from toolwright.web.console.runs.facts import file_link, joined, page_of, pager, thread_path
from toolwright.web.console.sign_in import SignInField, entry_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, code, file_url, nothing, plain_text, size, when
from toolwright.web.routes.threads import INLINE_TYPES

MAX_NAME: Final = 200
MAX_SHOWN: Final = 500
PAGE: Final = 50
MAX_TEXT: Final = 1_000_000  # bytes of a text file read for the preview


class ThreadValues:
    """Names and types of a thread's values, and the values that the caller may set."""

    def __init__(self, visit: Visit, thread: Thread) -> None:
        self._visit = visit
        self._thread = thread
        self._names = box("div")

    async def draw(self) -> None:
        """Render the values and the form."""
        await self._draw_names()
        settable = None
        if not self._visit.is_service:
            settable = sorted(await self._visit.permits.settable(self._thread.agent))
        with box("section", "card stack section"):
            plain_text("Set a value", "h2")
            if settable is not None and not settable:
                plain_text("This agent accepts no values from users.", "p", "quiet")
                return
            hint = "" if settable is None else f"You may set: {', '.join(settable)}"
            plain_text(
                "The type is the one that the agent declares, or secret. Secrets are stored encrypted.",
                "p",
                "quiet",
            )
            fields = [
                SignInField(name="name", label="Name", hint=hint),
                SignInField(name="value", label="Value", secret=True),
            ]
            entry_form(fields, "Set value", self._set)

    async def _draw_names(self) -> None:
        names = await self._visit.runtime.threads.env(self._thread.id)
        with self._names.clear():
            if not names:
                nothing("No values in this thread.", "Tools ask for the values they need.")
                return
            with box("div", "list"):
                for name in sorted(names)[:MAX_SHOWN]:
                    with box("div", "item"):
                        plain_text(name, "span", "mono fill")
                        badge(names[name])
                        action("Delete value", partial(self._delete_value, name), kind="plain")

    async def _set(self, entered: Mapping[str, str]) -> None:
        name = entered.get("name", "").strip()[:MAX_NAME]
        await self._visit.act(self._write({name: entered.get("value", "")}), "The value is set.")

    async def _delete_value(self, name: str) -> None:
        await self._visit.act(self._write({name: None}), "The value was deleted.")

    async def _write(self, values: dict[str, str | None]) -> None:
        if not all(values):
            raise InvalidRequest("Enter the name of the value.")
        visit, thread_id = self._visit, self._thread.id
        await visit.permits.thread(visit.caller, thread_id)
        await visit.permits.env(visit.caller, self._thread.agent, values, thread_id)
        # entered text or None, by name
        await visit.runtime.threads.set_env(
            thread_id, cast("EnvInput", values), by=visit.caller.through("console")
        )
        await self._draw_names()


async def draw_files_of(visit: Visit, thread_id: str) -> None:
    """Render a page of files, sorted by path."""
    files = await visit.runtime.files.list(thread_id)
    page = page_of(visit.query)
    page_files = files[(page - 1) * PAGE : page * PAGE]
    if not page_files:
        nothing("No files in this thread.", "Files are attached to messages or written by tools.")
        return
    with box("div", "list"):
        for file in page_files:
            _draw_file(visit, thread_id, file)
    pager(visit, thread_path(thread_id), page, more=len(files) > page * PAGE)


def _draw_file(visit: Visit, thread_id: str, file: File) -> None:
    ref = file.ref
    with box("div", "item file"):
        with box("div", "fill"):
            with box("div", "row"):
                file_link(thread_id, ref)
                plain_text(joined(brief(ref.mime_type, 80), size(ref.size)), "span", "quiet small")
                when(file.created_at, "quiet small")
            plain_text(ref.path, "div", "quiet small mono")
            plain_text(ref.description or "", "div", "small")
            if ref.mime_type in INLINE_TYPES:
                _draw_preview(visit, thread_id, file)
        saved = box("a", "small")
        saved.props["href"] = file_url(thread_id, ref.path)
        saved.props["download"] = ref.name
        saved.props["aria-label"] = f"Download {brief(ref.name, 100)}"
        with saved:
            ui.icon("download").props('aria-hidden="true"')


def _draw_preview(visit: Visit, thread_id: str, file: File) -> None:
    """Render a preview that is loaded when it is opened."""
    is_image = file.ref.mime_type.startswith("image/")
    if file.ref.size > (MAX_PREVIEW if is_image else MAX_TEXT):
        return
    with box("details") as opened:
        plain_text("Preview", "summary", "small")
        place = box("div")
    show = partial(_show_image if is_image else _show_text, visit, thread_id, file, place)
    opened.on("toggle", show, js_handler="(event) => { if (event.target.open) emit(true); }")


async def _show_image(
    _: Visit, thread_id: str, file: File, place: Element, __: GenericEventArguments
) -> None:
    with place.clear():
        image = box("img", "thumbnail")
        image.props["src"] = file_url(thread_id, file.ref.path)
        image.props["alt"] = brief(file.ref.description or file.ref.name, 300)


async def _show_text(
    visit: Visit, thread_id: str, file: File, place: Element, _: GenericEventArguments
) -> None:
    async def show() -> None:
        await visit.permits.thread(visit.caller, thread_id)
        content = await visit.runtime.files.read(thread_id, file.ref.path)
        if len(content) > MAX_TEXT:
            raise InvalidRequest("This file is too large to display. Download it.")
        with place.clear():
            code(content.decode("utf-8", "replace"))

    await visit.act(show())
