"""The line of a tool call on a page: it opens, and below it stand the call's component and the calls that it made."""

from typing import Final

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief
from toolwright.core.threads.call import OPEN, Call
from toolwright.web.console.runs.calls import CallLine, draw_call, gist, with_progress
from toolwright.web.console.runs.facts import KINDS, joined
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, words

_OPENED: Final = "(event) => emit(event.target.open)"


class CallFold:
    """The line of a call; what is in it is drawn when somebody opens it."""

    def __init__(self, visit: Visit, line: CallLine) -> None:
        self._visit = visit
        self.line = line
        self._open = False
        self._card: CallCard | None = None
        self._nested: Element | None = None
        self._element = box("div")
        with self._element:
            self._details = box("details", f"call fold {line.call.status}")
            self._details.props["data-call"] = line.call.id
            self._details.on("toggle", self._toggle, js_handler=_OPENED)
            with self._details:
                self._summary = box("summary", "row")
                self._body = box("div", "inside")
        self._draw_summary()

    @property
    def nested(self) -> Element:
        """Where the calls stand that this one has made: below it."""
        if self._nested is None:
            with self._element:
                self._nested = box("div", "nested")
        return self._nested

    @property
    def is_deleted(self) -> bool:
        """Whether it is not on the page any more."""
        return self._element.is_deleted

    async def show(self, line: CallLine) -> None:
        """Draw it anew if something of it has changed."""
        if line != self.line:
            self._details.classes(remove=self.line.call.status, add=line.call.status)
            self.line = line
            self._draw_summary()
            if self._open:
                await self._draw_body()
        await self.draw_component()

    async def draw_component(self) -> None:
        """Draw the call as its tool's component does, where people are to see it or somebody is to answer it."""
        row = self.line.row
        if row is None or (self._card is None and not _is_shown(row, self._visit)):
            return
        if self._card is None:
            with self._element:
                self._card = CallCard(self._visit)
        await self._card.show_row(row)

    async def progress(self, payload: JSONObject) -> None:
        """The call has told how far it is."""
        if self._card is not None:
            self._card.tell_progress(payload)
        if self.line.call.status == "running":
            await self.show(with_progress(self.line, payload))

    async def _toggle(self, event: GenericEventArguments) -> None:
        self._open = event.args is True
        if self._open:
            await self._draw_body()

    async def _draw_body(self) -> None:
        with self._body.clear():
            await draw_call(self._visit, self.line)

    def _draw_summary(self) -> None:
        call = self.line.call
        with self._summary.clear():
            words(brief(call.name, 100), "span", "mono title")
            badge(self.line.status, KINDS.get(self.line.status, ""))
            if self.line.facts:
                words(self.line.facts, "span", "quiet small")
            if call.progress is not None and call.status == "running":
                _draw_progress(*call.progress)
            words(call.error or gist(call.args), "span", "gist bad" if call.error else "gist")


def _is_shown(row: Call, visit: Visit) -> bool:
    """Whether there is more to see of a call than its line: it is visible, has a component, or waits for somebody."""
    waits = row.status in OPEN and (row.is_asked or not row.ends_with_run)
    return waits or row.visible or row.name in visit.site.tool_uis


def _draw_progress(done: float, total: float | None, text: str) -> None:
    with box("span", "row small"):
        if total:
            bar = box("progress")
            bar.props["max"], bar.props["value"] = total, min(done, total)
            bar.props["aria-label"] = "Progress"
        words(joined(brief(text, 120), f"{done:g} of {total:g}" if total else f"{done:g}"))
