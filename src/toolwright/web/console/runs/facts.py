"""Facts about runs: filtered lists, status, pending requests, and links to threads and agents."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Generic, TypeVar
from urllib.parse import quote, urlencode

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

from toolwright.core.errors import NotFound
from toolwright.core.json_value import JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.text import brief, quantity, time_span
from toolwright.core.threads.call import CallStatus
from toolwright.core.threads.run import Run, Usage
from toolwright.web.console.dialogs import variables_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, file_url, link, plain_text

KINDS: Final[Mapping[str, str]] = {
    "queued": "busy", "running": "busy", "waiting": "waiting", "completed": "good", "failed": "bad",
    "created": "busy", "pending": "waiting", "done": "good", "resolved": "good", "error": "bad", "expired": "bad",
    "cancelled": "bad", "idle": "", "terminated": "", "skipped": "", "writing": "busy", "success": "good",
}  # fmt: skip
"""Colors of the statuses of runs, threads and calls, for `badge`."""
STATUS_LABELS: Final[Mapping[CallStatus, str]] = {"created": "next", "pending": "waiting", "resolved": "done"}
"""Display labels of call statuses that differ from the status."""
_ENTERED = "(event) => emit(event.target.value)"
MAX_PAGES = 100_000
T = TypeVar("T")
LOST: Final = "The database is unavailable. This page updates when it is available again."


def run_path(run_id: str) -> str:
    """Return the path of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def thread_path(thread_id: str) -> str:
    """Return the path of a thread's page."""
    return f"/threads/{quote(thread_id, safe='')}"


def run_link(run_id: str, content: str = "run", classes: str = "quiet small") -> TextElement:
    """Return a link to a run, which every message of a run has."""
    return link(content, run_path(run_id), f"run-link {classes}")


def thread_link(thread_id: str, content: str | None = None, classes: str = "") -> TextElement:
    """Return a link to a thread."""
    return link(content or thread_id, thread_path(thread_id), classes)


def agent_link(visit: Visit, agent_id: str, name: str) -> TextElement:
    """Render an agent's name. For services it is a link to the agent's page."""
    if visit.is_service:
        return link(name, f"/agents/{quote(agent_id, safe='')}")
    return plain_text(brief(name, 300))


async def agent_name(visit: Visit, agent_id: str) -> str:
    """Return the name of an agent, or its id if the agent was deleted."""
    try:
        return (await visit.runtime.agents.get(agent_id)).name
    except NotFound:
        return agent_id


def file_link(thread_id: str, ref: AttachmentRef) -> None:
    """Render a link that opens a file, or saves it if a browser could execute it."""
    anchor = box("a", "file-link")
    anchor.props["href"] = file_url(thread_id, ref.path)
    anchor.props["target"] = "_blank"  # so that the path is not resolved as a view of the console
    anchor.props["rel"] = "noopener noreferrer"
    with anchor:
        plain_text(ref.name)


def tokens(usage: Usage) -> str:
    """Return the tokens read and written, such as `1,200 in (1,000 cached) · 80 out`, or an empty text."""
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens:,} in{cached} · {usage.output_tokens:,} out"


def price(cost: float | None) -> str:
    """Format US dollars with significant digits. Empty if prices are unknown."""
    if cost is None or cost != cost:
        return ""
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.6f}".rstrip("0")


def span(begin: datetime | None, end: datetime | None) -> str:
    """Format the time between two timestamps. Empty if one of them is missing."""
    return "" if begin is None or end is None else time_span(end - begin)


def joined(*facts: str) -> str:
    """Join the non-empty facts."""
    return " · ".join(filter(None, facts))


def reason(waiting: JSONObject | None) -> str:
    """Describe in a few words what a suspended run waits for."""
    match (waiting or {}).get("reason"):
        case "variables":
            return "missing variables"
        case "calls":
            ids = (waiting or {}).get("callIds")
            return f"the result of {quantity(len(ids), 'call')}" if isinstance(ids, list) else "results"
        case "approval":
            return "an approval"
        case "agent":
            return "a process whose app declares the agent"
        case "child":
            return "a child thread"
        case _:
            return ""


async def draw_waiting(visit: Visit, run: Run) -> None:
    """Render the run's pending requests, with a form for the values that the visitor may set."""
    if run.status != "waiting" or run.waiting is None:
        return
    request_id = run.waiting.get("requestId")
    if isinstance(request_id, str):
        await variables_form(visit, run.thread_id, request_id)
        return
    with box("div", "note row section"):
        plain_text(f"This run waits for {reason(run.waiting) or 'something'}.")
        if run.waiting.get("reason") in ("calls", "approval"):
            link("Answer in Pending", "/pending")
        else:
            link("See the child threads", f"{thread_path(run.thread_id)}?tab=family")


async def draw_requests(visit: Visit, thread_id: str) -> None:
    """Render forms for all missing values in the thread: of its run, or of a deferred child."""
    await visit.permits.thread(visit.caller, thread_id)
    for request in (await visit.runtime.requests.list(thread_id))[:10]:
        await variables_form(visit, thread_id, request.id)


def page_of(query: Mapping[str, str]) -> int:
    """Return the number of the requested page, from 1."""
    text = query.get("page", "1")
    return min(max(1, int(text)), MAX_PAGES) if text.isascii() and text.isdigit() and len(text) < 10 else 1


def address(path: str, **filters: str) -> str:
    """Return the path with the non-empty filters."""
    chosen = {name: text for name, text in filters.items() if text}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def text_filter(visit: Visit, path: str, name: str, label: str) -> None:
    """Render a field for one filter; Enter applies it."""
    field = (
        ui.input(label, value=visit.query.get(name, "")).props("outlined dense clearable").classes("filter")
    )

    def apply(event: GenericEventArguments | None) -> None:
        entered = event.args if event is not None and isinstance(event.args, str) else ""
        _go(visit, path, name, entered.strip())

    field.on("keydown.enter", apply, js_handler=_ENTERED)
    field.on("clear", lambda: apply(None))


def choice_filter(visit: Visit, path: str, name: str, label: str, options: Mapping[str, str]) -> None:
    """Render a choice of one filter's values."""
    chosen = visit.query.get(name)
    select = ui.select(
        dict(options),
        label=label,
        value=chosen if chosen in options else None,
        on_change=lambda event: _go(visit, path, name, event.value or ""),
    )
    select.props("outlined dense options-dense clearable").classes("filter")


def pager(visit: Visit, path: str, page: int, *, more: bool) -> None:
    """Render links to the previous and next pages."""
    if page == 1 and not more:
        return
    with box("nav", "row pager section") as bar:
        bar.props["aria-label"] = "Pages"
        filters = {name: text for name, text in visit.query.items() if name != "page"}
        if page > 1:
            link("Newer", address(path, **filters, page=str(page - 1) if page > 2 else ""))
        plain_text(f"Page {page}", "span", "quiet small")
        if more:
            link("Older", address(path, **filters, page=str(page + 1)))


def _go(visit: Visit, path: str, name: str, text: str) -> None:
    if text != visit.query.get(name, ""):
        others = {key: value for key, value in visit.query.items() if key not in (name, "page")}
        ui.navigate.to(address(path, **others, **{name: text}))


class Rows(Generic[T]):
    """Values by key, each in an element that `make` creates and `draw` fills."""

    def __init__(self, make: Callable[[str], Element], draw: Callable[[T], object]) -> None:
        self._make = make
        self._draw = draw
        self._list = box("div", "list")
        self._rows: dict[str, tuple[T, Element]] = {}

    def show(self, values: Mapping[str, T]) -> None:
        """Show these values in order."""
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
