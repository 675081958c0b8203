"""Conversation of a thread: a window of its messages, and the input field for a message or a prompt's arguments."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from nicegui import ui
from nicegui.element import Element
from nicegui.events import UploadEventArguments

from toolwright.core.errors import NotFound, ToolwrightError
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_ATTACHMENT, PageLimit, ended_early
from toolwright.core.results import Attachment
from toolwright.core.text import brief, quantity
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.message import Message, MessageCall
from toolwright.core.threads.thread import Thread
from toolwright.core.tools.tool_ui import ShownCall
from toolwright.core.value import changed
from toolwright.web.auth.permits import asks_somebody
from toolwright.web.console.browsing import check_service, draw_reasoning
from toolwright.web.console.dialogs import MAX_TEXT, message_field
from toolwright.web.console.runs.calls import CallLine, draw_files, line_of
from toolwright.web.console.runs.facts import run_link
from toolwright.web.console.runs.timeline import CallFold, DrawingPauses
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import (
    MAX_SHOWN,
    action,
    badge,
    box,
    code,
    icon_action,
    nothing,
    plain_text,
    prose,
    size,
    when,
)
from toolwright.wire.call import arguments_json

MAX_FILES: Final = 10
MAX_BYTES: Final = 50_000_000  # bytes of all files of one message
FORM: Final = 4_096  # additional bytes per uploaded file
PAGE: Final = 50  # messages read at once
MAX_READ: Final = 100  # calls read per page; the lines of others show what the model has read
MAX_DEPTH: Final = 10  # nesting levels of calls
MAX_DRAWN: Final = 200
"""Maximum number of messages on the page. Further messages replace those at the other end."""


async def draw_prompt(visit: Visit, thread: Thread) -> None:
    """Render the parts of the prompt that precedes the conversation, for services only."""
    check_service(visit)
    try:
        preview = await visit.runtime.prompts.of(thread.answering, thread.space_id)
    except ToolwrightError as error:
        nothing("The prompt cannot be shown.", error.message)
        return
    plain_text(
        "The prompt as it is sent now. Parts that change from step to step are sent after the messages of the "
        "conversation, all others before them. Earlier runs may have used a different prompt.",
        "p",
        "quiet",
    )
    for part in preview.sections:
        with box("section", "section"):
            with box("div", "row"):
                plain_text(part.name, "h2")
                size = quantity(len(part.text), "character")
                plain_text(f"{size}, after the messages" if part.changes else size, "span", "quiet small")
            code(part.text)


@dataclass(slots=True, kw_only=True)
class _File:
    """A file to be sent."""

    name: str
    mime_type: str
    content: bytes


class Composer:
    """The input field at the end of a thread. Enter sends, Shift+Enter inserts a line break.

    `send` returns whether it was accepted.
    """

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
            on_upload=self._add_file,
            on_rejected=lambda: complain(f"A file may have at most {size(most)}."),
        )
        upload.on("failed", lambda: complain("The file was not uploaded. Choose it again."), args=[])
        return upload.classes("hidden")  # a separate button opens its dialog

    async def _add_file(self, event: UploadEventArguments) -> None:
        """Add a file from the browser."""
        total = sum(len(each.content) for each in self._files) + event.file.size()
        if len(self._files) >= MAX_FILES or total > MAX_BYTES:
            complain(
                f"A message may have at most {quantity(MAX_FILES, 'file')} and {size(MAX_BYTES)} in all."
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
                    plain_text(f"{file.name} · {size(len(file.content))}")
                icon_action("close", f"Remove {file.name}", partial(self._leave_out, file))

    def _leave_out(self, file: _File) -> None:
        self._files = [each for each in self._files if each is not file]
        self._draw_files()

    async def _send(self, typed: str | None) -> None:
        """Send the input. It stays in the field if it was not accepted."""
        text = ((self._field.value if typed is None else typed) or "")[:MAX_TEXT]
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


@dataclass(slots=True, kw_only=True)
class ParticipantNames:
    """Display names of the participants of a thread."""

    user: str
    agent: str


class Conversation:
    """Messages on the page, newest last. A tool's answer is drawn with its call."""

    def __init__(self, visit: Visit, thread_id: str, names: ParticipantNames) -> None:
        self._visit = visit
        self._thread_id = thread_id
        self._names = names
        self._earlier = box("div", "row earlier")
        self._list = box("div", "messages")
        self._list.props["role"] = "log"
        self._list.props["aria-label"] = "Messages"
        self._list.props["data-follow"] = ""
        self._later = box("div", "row earlier")
        self._rows: dict[int, Element] = {}  # by message position
        self._ids: dict[str, int] = {}
        self._folds: dict[str, CallFold] = {}
        self._alone: dict[str, tuple[Message, Element]] = {}  # answers whose calls are on an earlier page
        self._is_cut = False  # whether the newest messages are not drawn
        self._unread: dict[str, Element] = {}
        self._sent = box("div", "messages")
        # one page at a time, because the next page starts where the previous one ends
        self._drawing = asyncio.Lock()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is drawn."""
        return not self._rows and not self._unread

    def sent(self, message: Message) -> None:
        """Show a sent message, which is drawn among the others after a run has read it."""
        if not self._is_drawn(message.id):
            with self._sent:
                self._unread[message.id] = self._draw_message(message, {})

    async def read(self) -> None:
        """Read the newest page."""
        async with self._drawing:
            await self._read()

    async def _read(self) -> None:
        messages = await self._page(None)
        self._rows.clear()
        self._folds.clear()
        self._alone.clear()
        self._list.clear()
        self._is_cut = False
        self._later.clear()
        await self._draw(messages)
        self._draw_earlier(has_more=_is_cut(messages))

    async def refresh(self) -> None:
        """Append new messages, unless the visitor is reading earlier ones."""
        async with self._drawing:
            await self._draw_new()

    async def _draw_new(self) -> None:
        if self._is_cut:
            self._draw_later(new=True)
            return
        newest = max(self._rows, default=0)
        page = await self._page(None)
        messages = [each for each in page if (each.seq or 0) > newest]
        if len(messages) == len(page) and _is_cut(page) and newest:  # there can be more in between
            await self._read()
            return
        await self._draw(messages)
        for seq in sorted(self._rows)[:-MAX_DRAWN]:
            self._rows.pop(seq).delete()
            self._draw_earlier(has_more=True)

    async def show_call(self, call: Call) -> None:
        """Update a changed call if it is drawn."""
        fold = self._folds.get(call.id) or await self._fold_below(call)
        if fold is not None and not fold.is_deleted:
            await fold.show(line_of(call, for_service=self._visit.is_service))

    async def _fold_below(self, call: Call) -> CallFold | None:
        """Render a call's question or approval, which is not part of any message."""
        if call.status not in OPEN or not asks_somebody(call):
            return None
        above = call
        for _ in range(MAX_DEPTH):
            if above.parent_id is None:
                return None
            parent = self._folds.get(above.parent_id)
            if parent is not None and not parent.is_deleted:
                with parent.nested:
                    line = line_of(call, for_service=self._visit.is_service)
                    fold = self._folds[call.id] = CallFold(self._visit, line)
                return fold
            above = await self._visit.runtime.calls.row(above.parent_id)
        return None

    async def progress(self, call_id: str, payload: JSONObject) -> None:
        """Show a call's reported progress."""
        fold = self._folds.get(call_id)
        if fold is not None and not fold.is_deleted:
            await fold.progress(payload)

    async def _refresh_calls(self, messages: Sequence[Message]) -> None:
        """Read the calls of these messages that wait for an answer or are visible in spaces."""
        call_ids = [call.id for message in messages for call in message.calls[:PAGE]]
        for call_id in call_ids[-MAX_READ:]:
            try:
                await self.show_call(await self._visit.permits.call(self._visit.caller, call_id))
            except NotFound:
                continue

    async def _page(self, before: int | None) -> Sequence[Message]:
        await self._visit.permits.thread(self._visit.caller, self._thread_id)
        return await self._visit.runtime.threads.messages_before(self._thread_id, before, PageLimit(PAGE))

    async def _draw(self, messages: Sequence[Message], place: int | None = None) -> None:
        """Render messages after all others, or from that position on."""
        answers = {each.call_id: each for each in messages if each.role == "tool"}
        answers |= {call_id: answer for call_id, (answer, _) in self._alone.items()}
        turns = DrawingPauses()
        for message in messages:
            fold = self._folds.get(message.call_id or "")
            read = self._unread.pop(message.id, None)
            if read is not None:
                read.delete()
            with self._list:
                row = box("div") if fold is not None else self._draw_message(message, answers)
            row.props["data-message"] = message.id
            self._ids[message.id] = message.seq or 0
            if fold is None and message.role == "tool" and message.call_id is not None:
                self._alone[message.call_id] = (message, row)
            if fold is not None and not fold.is_deleted:
                await fold.show(self._answered(fold.line, message))
            if place is not None:
                row.move(self._list, place)
                place += 1
            self._rows[message.seq or 0] = row
            await turns.give()
        await self._refresh_calls(messages)

    async def _read_earlier(self) -> None:
        async with self._drawing:
            await self._draw_before()

    async def _draw_before(self) -> None:
        first = min(self._rows, default=None)
        if first is None:
            return
        messages = await self._page(first)
        top = self._rows[first]
        await self._draw(messages, 0)
        for seq in sorted(self._rows)[MAX_DRAWN:]:
            self._rows.pop(seq).delete()
            self._is_cut = True
        ui.run_javascript(f"getHtmlElement({top.id})?.scrollIntoView({{block: 'start'}})")  # only a number
        self._draw_earlier(has_more=_is_cut(messages))
        if self._is_cut:
            self._draw_later(new=False)

    async def _read_newest(self) -> None:
        await self.read()
        ui.run_javascript("toolwright.toEnd?.()")

    def _is_drawn(self, message_id: str) -> bool:
        return self._ids.get(message_id) in self._rows

    def _draw_earlier(self, *, has_more: bool) -> None:
        with self._earlier.clear():
            if has_more:
                action("Earlier messages", self._read_earlier, kind="plain")

    def _draw_later(self, *, new: bool) -> None:
        with self._later.clear():
            action("Show new messages" if new else "Newest messages", self._read_newest)

    def _draw_message(self, message: Message, answers: dict[str | None, Message]) -> Element:
        name, kind, initial = self._speaker(message)
        with box("article", "message") as row:
            plain_text(initial, "span", f"face {kind}").props["aria-hidden"] = "true"
            with box("div", "by"):
                plain_text(name, "span", "who")
                when(message.created_at, "quiet small")
                if message.run_id is not None:
                    run_link(message.run_id)
                if message.seq is None:
                    badge("not read yet", "waiting")
                if not message.kept:
                    badge("not sent to the model")
                if message.status == "error":
                    badge("error", "bad")
                if message.seq is not None and message.role != "tool" and not message.calls:
                    self._draw_pin(box("span", "row"), message)
                if message.seq is not None:
                    self._draw_hidden(box("span", "row"), message)
            with box("div", "body"):
                draw_reasoning(self._visit, message)
                if message.content and message.role == "tool":
                    plain_text(brief(message.content, 2_000), "div", "code small")
                elif message.content:
                    prose(message.content)
                draw_files(self._thread_id, message.attachments)
                for call in message.calls[:PAGE]:
                    self._draw_call(message, call, answers.get(call.id))
                if len(message.calls) > PAGE:
                    plain_text(f"and {len(message.calls) - PAGE} more calls, see the run", "p", "quiet small")
        return row

    def _draw_pin(self, place: Element, message: Message) -> None:
        """Render the message's pin, with a button that changes it."""

        async def turn() -> None:
            await self._visit.permits.thread(self._visit.caller, self._thread_id)
            threads = self._visit.runtime.threads
            self._draw_pin(place, await threads.pin(self._thread_id, message.id, not message.pinned))

        with place.clear():
            if message.pinned:
                badge("pinned")
            label = (
                "Unpin this message"
                if message.pinned
                else "Pin this message, so that it is always sent to the model"
            )
            icon_action("push_pin", label, lambda: self._visit.act(turn()))

    def _draw_hidden(self, place: Element, message: Message) -> None:
        """Render whether the message is hidden from models, with a button that changes it."""

        async def turn() -> None:
            await self._visit.permits.thread(self._visit.caller, self._thread_id)
            is_hidden = message.hidden_by is not None
            messages = await self._visit.runtime.threads.hide_message(
                self._thread_id, message.id, not is_hidden, by=self._visit.caller.label
            )
            for each in messages:
                if each.id == message.id:
                    self._draw_hidden(place, each)

        with place.clear():
            if message.hidden_by is not None:
                badge("hidden")
                icon_action(
                    "visibility", "Send this message to models again", lambda: self._visit.act(turn())
                )
            elif message.kept:
                label = "Hide this message from models, with its calls and their results"
                icon_action("visibility_off", label, lambda: self._visit.act(turn()))

    def _draw_call(self, message: Message, call: MessageCall, answer: Message | None) -> None:
        shown_call = ShownCall(
            id=call.id,
            name=call.name,
            args=arguments_json(call.arguments),
            status="running",
            run_id=message.run_id,
            thread_id=self._thread_id,
        )
        line = CallLine(call=shown_call, status="running")
        if call.id in self._alone:
            self._alone.pop(call.id)[1].clear()
        if answer is not None:
            line = self._answered(line, answer)
        self._folds[call.id] = CallFold(self._visit, line)

    def _answered(self, line: CallLine, answer: Message) -> CallLine:
        """Return the line of an answered call, with the answer as read by the model."""
        failed = answer.status == "error"
        content = arguments_json(answer.content) if 0 < len(answer.content) < MAX_SHOWN else answer.content
        error = content.get("error") if isinstance(content, dict) else None
        call = changed(
            line.call,
            status="error" if failed else "complete",
            result=None if failed else content,
            error=(error if isinstance(error, str) else brief(answer.content, 2_000)) if failed else None,
            attachments=answer.attachments,
            progress=None,
        )
        stack = answer.stack if self._visit.is_service else None
        return changed(line, call=call, status="error" if failed else "done", stack=stack, links=())

    def _speaker(self, message: Message) -> tuple[str, str, str]:
        match message.role:
            case "user":
                name = self._names.user
                return name, "", name[:1].upper()
            case "assistant":
                name = message.by or self._names.agent
                return name, "agent", name[:1].upper()
            case _:
                return f"{message.tool_name or 'tool'}", "agent", "⚙"


def _is_cut(page: Sequence[Message]) -> bool:
    """Return whether the page might have earlier messages before it."""
    return len(page) == PAGE or ended_early(page)
