"""Browsing of data: pages for services only, tabs with their own links, and paged lists."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from nicegui.element import Element

from toolwright.core.errors import Forbidden
from toolwright.core.json_value import JSON
from toolwright.core.limits import PageLimit, ended_early
from toolwright.core.threads.message import Message
from toolwright.web.console.tool_ui.parts import json_block
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, link, plain_text

T = TypeVar("T")
PAGE: Final = 25  # rows per page of a list


def check_service(visit: Visit) -> None:
    """Raise `Forbidden` unless the visitor is a service.

    Agents, tools and people are shown only to services, as over HTTP.
    """
    if visit.caller.kind != "service":
        raise Forbidden("This page is for operators. Sign in with a secret key.")


def tabs(path: str, names: Mapping[str, str], current: str) -> None:
    """Render links to the tabs of the view at the path, selected by `?tab=`. The first tab needs no parameter."""
    with box("nav", "tabs") as bar:
        bar.props["aria-label"] = "Sections"
        for tab, name in names.items():
            tab_link = link(name, path if tab == next(iter(names)) else f"{path}?tab={tab}", "tab")
            if tab == current:
                tab_link.props["aria-current"] = "page"


def folded(visit: Visit, summary: str, content: JSON) -> None:
    """Render folded JSON that is drawn when opened. Large JSON is truncated."""
    details = box("details", "folded")
    with details:
        plain_text(summary, "summary", "quiet small")
        place = box()

    async def fill() -> None:
        if not place.default_slot.children:
            with place:
                await json_block(content)

    details.on("toggle", lambda: visit.act(fill()), args=[])


def draw_reasoning(visit: Visit, message: Message) -> None:
    """Render the model's reasoning, folded, if the visitor may read it."""
    if message.reasoning is not None and (message.reasoning_shared or visit.is_service):
        with box("details", "folded"):
            plain_text("Reasoning", "summary", "quiet small")
            plain_text(message.reasoning, "div", "prose small")


async def read_short(
    read: Callable[[int, int], Awaitable[Sequence[T]]], limit: int, offset: int, short: Callable[[T], T]
) -> Sequence[T]:
    """Read up to `limit` rows in small batches and shorten each row, so that few large rows are in memory at once."""
    rows = list[T]()
    while len(rows) < limit:
        page = await read(PageLimit(limit - len(rows)), offset + len(rows))
        rows += map(short, page)
        if not ended_early(page):
            break
    return rows


class Listing(Generic[T]):
    """A list on the page, read a page at a time: `read` takes a limit and an offset, `draw` shows a row."""

    def __init__(
        self,
        visit: Visit,
        read: Callable[[int, int], Awaitable[Sequence[T]]],
        draw: Callable[[T], object],
        *,
        empty: Callable[[], object],
        size: int = PAGE,
    ) -> None:
        self._visit = visit
        self._read = read
        self._draw = draw
        self._empty = empty
        self._size = size
        self._offset = 0
        self._rows: Sequence[T] = ()
        self._place: Element = box("div")

    async def show(self, offset: int | None = None) -> None:
        """Re-read the page, or show the page at the offset. Shows the previous page if it has become empty."""
        self._offset = self._offset if offset is None else max(0, offset)
        rows = await self._read(PageLimit(self._size + 1), self._offset)
        if not rows and self._offset:
            await self.show(self._offset - self._size)
            return
        self._draw_rows(rows)

    async def follow(self) -> None:
        """Re-read the page and draw it if it has changed. Otherwise opened parts stay open."""
        rows = await self._read(PageLimit(self._size + 1), self._offset)
        if [*rows] != [*self._rows]:
            self._draw_rows(rows)

    def _draw_rows(self, rows: Sequence[T]) -> None:
        self._rows = rows
        self._place.clear()
        with self._place:
            self._draw_page(rows)

    def _draw_page(self, rows: Sequence[T]) -> None:
        if not rows:
            self._empty()
            return
        with box("ul", "list"):
            for row in rows[: self._size]:
                self._draw(row)
        more = len(rows) > self._size or ended_early(rows)
        if self._offset or more:
            self._pager(more=more)

    def _pager(self, *, more: bool) -> None:
        with box("div", "row pager"):
            if self._offset:
                action("Back", lambda: self._go(self._offset - self._size), icon="chevron_left")
            plain_text(f"From {self._offset + 1}", "span", "quiet small")
            if more:
                action(
                    "More",
                    lambda: self._go(self._offset + min(self._size, max(1, len(self._rows)))),
                    icon="chevron_right",
                )

    async def _go(self, offset: int) -> None:
        await self._visit.act(self.show(offset))
