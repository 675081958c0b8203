"""Where somebody writes in a space: a message, a reply, or another text for one of theirs."""

import asyncio
from collections.abc import Awaitable, Callable

from nicegui import ui
from nicegui.element import Element

from toolwright.core.spaces.entity import Entity
from toolwright.web.console.dialogs import message_field
from toolwright.web.console.room.messages import RoomMessage
from toolwright.web.console.room.people import name_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, icon_action, link, words

STILL = 3.0  # seconds without a key after which somebody types no more


class Composer:
    """The field at the end of a space. `say` sends a text as an answer to a message or to none, `edit` replaces one."""

    def __init__(
        self,
        visit: Visit,
        say: Callable[[str, RoomMessage | None], Awaitable[bool]],
        edit: Callable[[RoomMessage, str], Awaitable[bool]],
    ) -> None:
        self._visit = visit
        self._say = say
        self._edit = edit
        self._parent: RoomMessage | None = None
        self._edited: RoomMessage | None = None
        self._element = box("div", "compose")
        self._about: Element | None = None
        self._field: ui.textarea | None = None
        self._sending = False
        self._pause: asyncio.TimerHandle | None = None

    async def draw(self) -> None:
        """The field, or why there is none."""
        speaker = await self._visit.speaker()
        with self._element.clear():
            if speaker is None:
                with box("div", "note"):
                    words("A service speaks for somebody: choose who you are among the ")
                    link("people", "/people")
                    words(".")
                return
            self._about = box("div", "about")
            with box("div", "frame"):
                self._field = self._draw_field(speaker)
                icon_action("send", "Send", self._send)

    def reply(self, said: RoomMessage) -> None:
        """The next text answers that message."""
        self._parent, self._edited = said, None
        self._draw_about(f"Reply to {said.author}: {said.gist}")

    def change(self, said: RoomMessage) -> None:
        """The next text takes the place of that message's."""
        self._parent, self._edited = None, said
        self._draw_about("Edit your message")
        if self._field is not None:
            self._field.value = said.content

    def _draw_field(self, speaker: Entity) -> ui.textarea:
        field = message_field(f"Message as {name_of(speaker)}", self._send)
        field.on("keydown.escape", self._forget, args=[])
        field.on("keydown", self._type, throttle=1.0, args=[])
        return field

    async def _send(self, typed: str | None = None) -> None:
        field = self._field
        if field is None:
            return
        text = (field.value if typed is None else typed) or ""
        if self._sending or not text.strip():
            return
        field.value = ""
        self._visit.type(is_typing=False)
        edited, parent = self._edited, self._parent
        self._sending = True
        try:
            done = await (self._say(text, parent) if edited is None else self._edit(edited, text))
        finally:
            self._sending = False
        if done:
            self._forget()
        else:
            field.value = text  # nothing that was written is lost

    def _forget(self) -> None:
        self._parent = self._edited = None
        if self._about is not None:
            self._about.clear()

    def _draw_about(self, text: str) -> None:
        if self._about is None or self._field is None:
            return
        with self._about.clear(), box("div", "row quiet small"):
            words(text, "span", "fill")
            icon_action("close", "Never mind", self._forget)
        self._field.run_method("focus")

    def _type(self) -> None:
        """Somebody types, until they have sent it or have paused."""
        self._visit.type(is_typing=True)
        if self._pause is not None:
            self._pause.cancel()
        self._pause = asyncio.get_running_loop().call_later(STILL, self._rest)

    def _rest(self) -> None:
        self._visit.type(is_typing=False)
