"""What a thread is told: the field for a message, and a form for a prompt's arguments."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from nicegui import ui
from nicegui.events import UploadEventArguments

from toolwright.core.errors import ToolwrightError
from toolwright.core.limits import MAX_ATTACHMENT
from toolwright.core.results.content import Attachment
from toolwright.core.text import quantity
from toolwright.core.threads.thread import Thread
from toolwright.web.console.browsing import check_service
from toolwright.web.console.dialogs import LONGEST, message_field
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import box, code, icon_action, nothing, size, words


async def draw_prompt(visit: Visit, thread: Thread) -> None:
    """What its model reads before the conversation, in the parts that it is made of; for services alone."""
    check_service(visit)
    try:
        told = await visit.runtime.prompts.of(thread.answering, thread.space_id)
    except ToolwrightError as error:
        nothing("The prompt cannot be shown.", error.message)
        return
    words(
        "What the model is told now. Parts that change from step to step are sent after the messages of the "
        "conversation, all others before them. A run that is over was told what held then.",
        "p",
        "quiet",
    )
    for part in told.sections:
        with box("section", "section"):
            with box("div", "row"):
                words(part.name, "h2")
                size = quantity(len(part.text), "character")
                words(f"{size}, after the messages" if part.changes else size, "span", "quiet small")
            code(part.text)


MOST_FILES: Final = 10
MOST_BYTES: Final = 50_000_000  # of all files of one message
FORM: Final = 4_096  # bytes around a file that is uploaded


@dataclass(slots=True, kw_only=True)
class _File:
    """A file that is to be sent."""

    name: str
    mime_type: str
    content: bytes


class Composer:
    """The field at the end of a thread; Enter sends, Shift+Enter begins a line. `send` says whether it was taken."""

    def __init__(self, visit: Visit, send: Callable[[str, Sequence[Attachment]], Awaitable[bool]]) -> None:
        self._visit = visit
        self._send_message = send
        self._files: list[_File] = []
        self._sending = False
        with box("div", "compose"):
            self._chosen = box("div", "row small about")
            with box("div", "frame"):
                self._upload = self._draw_upload()
                pick = icon_action("attach_file", "Attach files", lambda: None)
                pick.on("click", js_handler=f"() => getElement({self._upload.id}).pickFiles()")
                self._field = message_field("Message", self._send)
                icon_action("send", "Send", partial(self._send, None))

    def _draw_upload(self) -> ui.upload:
        max_body = self._visit.site.serving.options.max_body
        most = MAX_ATTACHMENT if max_body is None else min(MAX_ATTACHMENT, max(1, max_body - FORM))
        upload = ui.upload(
            multiple=True,
            auto_upload=True,
            max_file_size=most,
            on_upload=self._take,
            on_rejected=lambda: complain(f"A file may have at most {size(most)}."),
        )
        upload.on("failed", lambda: complain("The file did not arrive: choose it again."), args=[])
        return upload.classes("hidden")  # the button beside it opens its dialog

    async def _take(self, event: UploadEventArguments) -> None:
        """A file has come from the browser."""
        total = sum(len(each.content) for each in self._files) + event.file.size()
        if len(self._files) >= MOST_FILES or total > MOST_BYTES:
            complain(
                f"A message may have at most {quantity(MOST_FILES, 'file')} and {size(MOST_BYTES)} in all."
            )
            return
        content = await event.file.read()
        mime_type = event.file.content_type or "application/octet-stream"
        self._files.append(_File(name=event.file.name or "file", mime_type=mime_type, content=content))
        self._draw_files()

    def _draw_files(self) -> None:
        with self._chosen.clear():
            for file in self._files:
                with box("span", "badge"):
                    words(f"{file.name} · {size(len(file.content))}")
                icon_action("close", f"Leave out {file.name}", partial(self._leave_out, file))

    def _leave_out(self, file: _File) -> None:
        self._files = [each for each in self._files if each is not file]
        self._draw_files()

    async def _send(self, typed: str | None) -> None:
        """Send what is there; it stays in the field where it was not taken."""
        text = ((self._field.value if typed is None else typed) or "")[:LONGEST]
        if self._sending or (not text.strip() and not self._files):
            return
        self._sending = True
        self._field.value = ""
        try:
            files = [await asyncio.to_thread(_attachment, each) for each in self._files]
            done = await self._send_message(text, files)
        finally:
            self._sending = False
        if done:
            self._files.clear()
            self._upload.reset()
            self._draw_files()
        else:
            self._field.value = text


def _attachment(file: _File) -> Attachment:
    data = base64.b64encode(file.content).decode()
    return Attachment(name=file.name, mime_type=file.mime_type, data=data)
