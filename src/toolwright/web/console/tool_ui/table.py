"""The component that draws a table, a page at a time."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from nicegui.element import Element

from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.spaces.tool_ui import Submit
from toolwright.core.text import brief, quantity
from toolwright.core.value import value
from toolwright.web.console.tool_ui.facts import CallFacts
from toolwright.web.console.tool_ui.parts import cut_json, text_of
from toolwright.web.console.tool_ui.plain import draw_plain
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, words

PAGE: Final = 25  # rows at a time; of a wide table fewer
MOST_CELLS: Final = 1_000  # at a time: more take the server a tenth of a second
MOST_COLUMNS: Final = 200
_LOOKED_AT: Final = 100  # rows whose names become columns
_LONGEST: Final = 500  # characters of a cell
_WRAPPED: Final = ("table", "data", "result")
_NAMES: Final = ("key", "field", "name", "id", "accessor", "label", "title", "header")
_TITLES: Final = ("label", "title", "header", "headerName", "name", "key", "field", "id")


@value
class Table:
    """A table: of each column its key and its title; the rows are as they came."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[JSON]

    def cells(self, row: int) -> Sequence[str]:
        """The row's cells as text."""
        whole = self.rows[row]
        if isinstance(whole, dict):
            return [_text(whole.get(key)) for key, _ in self.columns]
        cells = whole if isinstance(whole, list) else [whole]
        return [_text(cells[at]) if at < len(cells) else "" for at in range(len(self.columns))]


async def draw_table(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """The table that the result describes, else the arguments."""
    call = facts.call
    table = read_table(call.result) or read_table(call.args)
    if table is None:
        if call.status == "streaming":
            words("The table comes …", "p", "quiet")
            return
        await draw_plain(visit, facts, submit)
        return
    title = text_of(call.args, "title", "caption")
    if title is not None:
        words(brief(title, 200), "h3")
    _Paged(table)
    if call.status == "error":
        words(call.error or "The tool failed.", "div", "error")


def read_table(described: JSON) -> Table | None:
    """The table in `{columns, rows}` or in a list of objects or lists; None if there is none."""
    if isinstance(described, dict):
        rows = described.get("rows")
        if isinstance(rows, list):
            return _table(described.get("columns", described.get("headers")), rows)
        within = [described.get(name) for name in _WRAPPED]
        return next((table for each in within if each is not None and (table := read_table(each))), None)
    if isinstance(described, list) and described and isinstance(described[0], dict | list):
        return _table(None, described)
    return None


def _table(named: JSON, rows: list[JSON]) -> Table | None:
    columns = (
        [_column(at, each) for at, each in enumerate(named[:MOST_COLUMNS])] if isinstance(named, list) else []
    )
    if not columns:
        objects: list[JSONObject] = [each for each in rows[:_LOOKED_AT] if isinstance(each, dict)]
        keys = dict.fromkeys(key for each in objects for key in islice(each, MOST_COLUMNS))
        columns = [(key, brief(key, _LONGEST)) for key in islice(keys, MOST_COLUMNS)]
    if not columns:
        width = max((len(each) for each in rows[:_LOOKED_AT] if isinstance(each, list)), default=0)
        columns = [(str(at), "") for at in range(min(width, MOST_COLUMNS))]
    return Table(columns=columns, rows=rows) if columns else None


def _column(at: int, described: JSON) -> tuple[str, str]:
    if isinstance(described, dict):
        key = text_of(described, *_NAMES) or str(at)
        return key, brief(text_of(described, *_TITLES) or key, _LONGEST)
    return _text(described), _text(described)


def _text(cell: JSON) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return brief(cell, _LONGEST)
    return brief(dumps_unescaped(cut_json(cell, _LONGEST)[0]), _LONGEST)


class _Paged:
    """A table on the page, and where somebody is in it."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._page = max(1, min(PAGE, MOST_CELLS // len(table.columns)))
        self._first = 0
        with box("div", "scroll") as scroll:
            scroll.props["tabindex"] = "0"
            self._box: Element = box("table", "grid")
        self._place: Element | None = box("div", "row quiet small") if len(table.rows) > self._page else None
        self._draw()

    def _draw(self) -> None:
        table, last = self._table, min(self._first + self._page, len(self._table.rows))
        with self._box.clear():
            if any(title for _, title in table.columns):
                with box("thead"), box("tr"):
                    for _, title in table.columns:
                        words(title, "th")
            with box("tbody"):
                for row in range(self._first, last):
                    with box("tr"):
                        for cell in table.cells(row):
                            words(cell, "td")
        if not table.rows:
            with self._box:
                words("No rows.", "caption", "quiet small")
        if self._place is None:
            return
        with self._place.clear():
            words(f"{self._first + 1} to {last} of {quantity(len(table.rows), 'row')}")
            if self._first:
                action("Previous", lambda: self._go(-self._page), kind="plain")
            if last < len(table.rows):
                action("Next", lambda: self._go(self._page), kind="plain")

    def _go(self, rows: int) -> None:
        self._first = max(0, self._first + rows)
        self._draw()
