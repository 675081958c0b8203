"""Filters of a list as they stand in its address, and the pages of it."""

from collections.abc import Mapping
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments

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
