"""Lists of runs: their filters and rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from toolwright.core.broken_rows import broken_of
from toolwright.core.text import brief
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, link, words

_ENTERED = "(event) => emit(event.target.value)"
MOST_PAGES = 100_000


def page_of(query: Mapping[str, str]) -> int:
    """The number of the page that is asked for, from 1."""
    text = query.get("page", "1")
    return min(max(1, int(text)), MOST_PAGES) if text.isascii() and text.isdigit() and len(text) < 10 else 1


def address(path: str, **filters: str) -> str:
    """The path with these filters, those that are empty left out."""
    chosen = {name: text for name, text in filters.items() if text}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def text_filter(visit: Visit, path: str, name: str, label: str) -> None:
    """A field for one filter; Enter applies it."""
    field = (
        ui.input(label, value=visit.query.get(name, "")).props("outlined dense clearable").classes("filter")
    )

    def apply(event: GenericEventArguments | None) -> None:
        entered = event.args if event is not None and isinstance(event.args, str) else ""
        _go(visit, path, name, entered.strip())

    field.on("keydown.enter", apply, js_handler=_ENTERED)
    field.on("clear", lambda: apply(None))


def choice_filter(visit: Visit, path: str, name: str, label: str, options: Mapping[str, str]) -> None:
    """A choice of one filter's values."""
    chosen = visit.query.get(name)
    select = ui.select(
        dict(options),
        label=label,
        value=chosen if chosen in options else None,
        on_change=lambda event: _go(visit, path, name, event.value or ""),
    )
    select.props("outlined dense options-dense clearable").classes("filter")


def pager(visit: Visit, path: str, page: int, *, more: bool) -> None:
    """Links to the pages before and after this one."""
    if page == 1 and not more:
        return
    with box("nav", "row pager section") as bar:
        bar.props["aria-label"] = "Pages"
        filters = {name: text for name, text in visit.query.items() if name != "page"}
        if page > 1:
            link("Newer", address(path, **filters, page=str(page - 1) if page > 2 else ""))
        words(f"Page {page}", "span", "quiet small")
        if more:
            link("Older", address(path, **filters, page=str(page + 1)))


def _go(visit: Visit, path: str, name: str, text: str) -> None:
    if text != visit.query.get(name, ""):
        others = {key: value for key, value in visit.query.items() if key not in (name, "page")}
        ui.navigate.to(address(path, **others, **{name: text}))


T = TypeVar("T")
LOST: Final = "The journal cannot be read: this page goes on when it is back."


def draw_broken(rows: Sequence[object]) -> None:
    """Say of the rows of a list that could not be read which they are, so that nothing is missing in silence."""
    for broken in broken_of(rows)[:3]:
        words(brief(broken.sentence, 300), "p", "error section")


class Rows(Generic[T]):
    """Values by their keys, each in an element that `make` opens and `draw` fills."""

    def __init__(self, make: Callable[[str], Element], draw: Callable[[T], object]) -> None:
        self._make = make
        self._draw = draw
        self._list = box("div", "list")
        self._rows: dict[str, tuple[T, Element]] = {}

    def show(self, values: Mapping[str, T]) -> None:
        """These values, in their order."""
        for key in [key for key in self._rows if key not in values]:
            self._rows.pop(key)[1].delete()
        self._list.set_visibility(bool(values))
        in_order = [*self._rows] == [key for key in values if key in self._rows]
        for place, (key, value) in enumerate(values.items()):
            row = self._rows.get(key)
            if row is None:
                with self._list:
                    element = self._make(key)
                element.move(self._list, place)
            elif in_order:
                element = row[1]
            else:
                element = row[1]
                element.move(self._list, place)
            if row is None or row[0] != value:
                with element.clear():
                    self._draw(value)
            self._rows[key] = (value, element)
        self._rows = {key: self._rows[key] for key in values}
