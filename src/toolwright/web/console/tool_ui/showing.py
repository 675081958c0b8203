"""Tool UI components for display: text, tables, files, progress."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from nicegui import ui
from nicegui.element import Element

from toolwright.core.json_text import NotJson, parse_json
from toolwright.core.json_value import JSON, JSONObject, dumps_unescaped
from toolwright.core.results import AttachmentRef
from toolwright.core.text import brief, quantity
from toolwright.core.tools.tool_ui import ShownCall, Submit
from toolwright.core.value import Value
from toolwright.web.console.tool_ui.parts import (
    CallFacts,
    arguments,
    cut_json,
    json_block,
    outcome,
    text_of,
    waiting_for_others,
)
from toolwright.web.console.visit import Visit, complain
from toolwright.web.console.widgets import action, box, file_url, plain_text, size
from toolwright.web.routes.threads import INLINE_TYPES

PAGE: Final = 25  # rows per page; fewer in a wide table
MAX_CELLS: Final = 1_000  # cells per page: more take the server a tenth of a second
MAX_COLUMNS: Final = 200
_LOOKED_AT: Final = 100  # rows whose names become columns
_MAX_CELL: Final = 500  # characters of a cell
_WRAPPED: Final = ("table", "data", "result")
_NAMES: Final = ("key", "field", "name", "id", "accessor", "label", "title", "header")
_TITLES: Final = ("label", "title", "header", "headerName", "name", "key", "field", "id")
MAX_SHOWN: Final = 50  # files per call
_INLINE: Final = ("url", "src", "image", "dataUrl", "data_url", "data")
_CAPTION: Final = ("caption", "title", "alt", "description")
_DONE: Final = ("done", "current", "value", "progress", "percent")
_TOTAL: Final = ("total", "max", "of")
_TEXT: Final = ("text", "message", "label", "title", "status")
MAX_INLINE: Final = 5 * 1024 * 1024  # bytes of an image in the arguments


async def draw_plain(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the arguments, and the result or the error."""
    call = facts.call
    await arguments(call)
    waiting_for_others(call)
    await outcome(call)
    draw_attachments(call)


async def draw_json(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the result as JSON, or the arguments if there is no result."""
    call = facts.call
    if call.status == "error":
        await draw_plain(visit, facts, submit)
        return
    await json_block(call.args if call.result is None else call.result)
    draw_attachments(call)


def draw_answer(call: ShownCall, submit: Submit) -> None:
    """Render a field for the result of an open call, as JSON or text, or for an error."""
    field = ui.textarea().props('outlined dense autogrow hide-bottom-space input-class="mono"')
    field.props["label"] = "Result: text, or JSON"
    field.props["maxlength"] = 200_000

    async def answer() -> None:
        if field.value and field.value.strip():
            await submit(read_result(field.value))
        else:
            complain('Write the result first: text, or JSON such as null or {"ok": true}.')

    async def fail() -> None:
        if field.value and field.value.strip():
            await submit(error=field.value.strip())
        else:
            complain("Describe the error first. The agent reads it.")

    with box("div", "row answers"):
        action("Answer", answer, kind="primary")
        action("Report an error", fail, kind="danger")
        plain_text("Input that is not JSON is sent as text.", "span", "quiet small")


def read_result(entered: str) -> JSON:
    """Return the entered value: parsed JSON, or the text itself if it is not JSON."""
    try:
        return parse_json(entered)
    except NotJson:
        return entered


class ShownTable(Value):
    """A table. `columns` are keys and titles; the rows are unchanged."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[JSON]

    def cells(self, row: int) -> Sequence[str]:
        """Return the row's cells as text."""
        whole = self.rows[row]
        if isinstance(whole, dict):
            return [_text(whole.get(key)) for key, _ in self.columns]
        cells = whole if isinstance(whole, list) else [whole]
        return [_text(cells[at]) if at < len(cells) else "" for at in range(len(self.columns))]


async def draw_table(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the table in the result, or in the arguments if there is no result."""
    call = facts.call
    table = read_table(call.result) or read_table(call.args)
    if table is None:
        if call.status == "streaming":
            plain_text("Loading the table …", "p", "quiet")
            return
        await draw_plain(visit, facts, submit)
        return
    title = text_of(call.args, "title", "caption")
    if title is not None:
        plain_text(brief(title, 200), "h3")
    _Paged(table)
    if call.status == "error":
        plain_text(call.error or "The tool failed.", "div", "error")


def read_table(described: JSON) -> ShownTable | None:
    """Return the table in `{columns, rows}` or in a list of objects or lists, or None."""
    if isinstance(described, dict):
        rows = described.get("rows")
        if isinstance(rows, list):
            return _table(described.get("columns", described.get("headers")), rows)
        within = [described.get(name) for name in _WRAPPED]
        return next((table for each in within if each is not None and (table := read_table(each))), None)
    if isinstance(described, list) and described and isinstance(described[0], dict | list):
        return _table(None, described)
    return None


def _table(declared: JSON, rows: list[JSON]) -> ShownTable | None:
    columns = (
        [_column(at, each) for at, each in enumerate(declared[:MAX_COLUMNS])]
        if isinstance(declared, list)
        else []
    )
    if not columns:
        objects: list[JSONObject] = [each for each in rows[:_LOOKED_AT] if isinstance(each, dict)]
        keys = dict.fromkeys(key for each in objects for key in islice(each, MAX_COLUMNS))
        columns = [(key, brief(key, _MAX_CELL)) for key in islice(keys, MAX_COLUMNS)]
    if not columns:
        width = max((len(each) for each in rows[:_LOOKED_AT] if isinstance(each, list)), default=0)
        columns = [(str(at), "") for at in range(min(width, MAX_COLUMNS))]
    return ShownTable(columns=columns, rows=rows) if columns else None


def _column(at: int, described: JSON) -> tuple[str, str]:
    if isinstance(described, dict):
        key = text_of(described, *_NAMES) or str(at)
        return key, brief(text_of(described, *_TITLES) or key, _MAX_CELL)
    return _text(described), _text(described)


def _text(cell: JSON) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return brief(cell, _MAX_CELL)
    return brief(dumps_unescaped(cut_json(cell, _MAX_CELL)[0]), _MAX_CELL)


class _Paged:
    """A table on the page, with its current page of rows."""

    def __init__(self, table: ShownTable) -> None:
        self._table = table
        self._page = max(1, min(PAGE, MAX_CELLS // len(table.columns)))
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
                        plain_text(title, "th")
            with box("tbody"):
                for row in range(self._first, last):
                    with box("tr"):
                        for cell in table.cells(row):
                            plain_text(cell, "td")
        if not table.rows:
            with self._box:
                plain_text("No rows.", "caption", "quiet small")
        if self._place is None:
            return
        with self._place.clear():
            plain_text(f"{self._first + 1} to {last} of {quantity(len(table.rows), 'row')}")
            if self._first:
                action("Previous", lambda: self._go(-self._page), kind="plain")
            if last < len(table.rows):
                action("Next", lambda: self._go(self._page), kind="plain")

    def _go(self, rows: int) -> None:
        self._first = max(0, self._first + rows)
        self._draw()


_RASTER: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


async def draw_image(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the images attached to the result, or the `data:` URL in the arguments if there are none."""
    call = facts.call
    caption = text_of(call.args, *_CAPTION)
    inline = inline_image(call.args) or inline_image(call.result)
    if inline is not None:
        _picture(inline, brief(caption or call.name, 300))
    if caption is not None:
        plain_text(brief(caption, 400), "p", "quiet small")
    draw_attachments(call)
    if inline is None and not call.attachments:
        await arguments(call, but=_CAPTION)
    if call.status == "error" or (inline is None and not call.attachments):
        await outcome(call)


async def draw_file(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the attachments of the result: name, size, type and link."""
    call = facts.call
    draw_attachments(call, pictures=False)
    if not call.attachments:
        await arguments(call)
    if call.status == "error" or not call.attachments:
        await outcome(call)


def draw_attachments(call: ShownCall, *, pictures: bool = True) -> None:
    """Render the attachments, with pictures for images unless only a list is wanted."""
    visible: Sequence[AttachmentRef] = call.attachments[:MAX_SHOWN]
    for each in visible:
        url = None if call.thread_id is None else file_url(call.thread_id, each.path, call.id)
        _draw(each, url, as_picture=pictures and is_picture(each))
    if len(call.attachments) > len(visible):
        plain_text(f"And {len(call.attachments) - len(visible)} more.", "p", "quiet small")


def is_picture(attachment: AttachmentRef) -> bool:
    """Return whether a browser may display the file."""
    return attachment.mime_type.startswith("image/") and attachment.mime_type in INLINE_TYPES


def inline_image(described: JSON) -> str | None:
    """Return the `data:` URL of a picture whose type cannot contain scripts, or None."""
    candidates = [described.get(name) for name in _INLINE] if isinstance(described, dict) else [described]
    texts = [each for each in candidates if isinstance(each, str) and len(each) <= MAX_INLINE * 4 // 3 + 64]
    return next((each for each in texts if each.startswith("data:") and _RASTER.fullmatch(each)), None)


def _draw(attachment: AttachmentRef, url: str | None, *, as_picture: bool) -> None:
    with box("figure", "file"):
        if url is not None and as_picture:
            with _link(url):
                _picture(url, brief(attachment.description or attachment.name, 300))
        with box("figcaption", "row"):
            if url is None:
                plain_text(brief(attachment.name, 200), "span", "title")
            else:
                with _link(url):
                    plain_text(brief(attachment.name, 200))
            plain_text(f"{brief(attachment.mime_type, 80)}, {size(attachment.size)}", "span", "quiet small")
        if attachment.description and not as_picture:
            plain_text(brief(attachment.description, 400), "div", "quiet small")


def _link(url: str) -> Element:
    anchor = box("a")
    anchor.props["href"], anchor.props["target"], anchor.props["rel"] = url, "_blank", "noopener"
    return anchor


def _picture(url: str, alt: str) -> None:
    picture = box("img", "thumbnail")
    picture.props["src"], picture.props["alt"], picture.props["loading"] = url, alt, "lazy"


class ShownProgress(Value):
    """Progress of a call: `share` is from 0 to 1, or None if unknown."""

    share: float | None
    label: str
    text: str


async def draw_progress(visit: Visit, facts: CallFacts, submit: Submit) -> None:
    """Render the last reported progress of the call, or its arguments if there is none."""
    call = facts.call
    progress = read_progress(call)
    if progress is None:
        await arguments(call)
    else:
        draw_bar(progress)
    await outcome(call)


def draw_bar(progress: ShownProgress) -> None:
    """Render a progress bar with its text."""
    with box("div", "stack"):
        if progress.text:
            plain_text(brief(progress.text, 400), "div")
        with box("div", "progress") as bar:
            bar.props["role"] = "progressbar"
            bar.props["aria-label"] = progress.text[:200] or "Progress"
            done = box("div", "done" if progress.share is not None else "done unknown")
            if progress.share is not None:
                bar.props["aria-valuenow"] = round(progress.share * 100)
                done.style(f"width: {progress.share:.1%}")
        plain_text(progress.label, "div", "quiet small")


def read_progress(call: ShownCall) -> ShownProgress | None:
    """Return the call's progress, or None if it reports none."""
    if call.progress is not None:
        done, total, text = call.progress
        return _progress(done, total, text)
    args = call.args if isinstance(call.args, dict) else {}
    done = next((each for name in _DONE if (each := _number(args.get(name))) is not None), None)
    total = next((each for name in _TOTAL if (each := _number(args.get(name))) is not None), None)
    if done is None:
        return None
    if total is None and "percent" in args:
        total = 100.0
    return _progress(done, total, text_of(call.args, *_TEXT) or "")


def _progress(done: float, total: float | None, text: str) -> ShownProgress:
    if total is None and 0 <= done <= 1:
        total = 1.0
    if total is None or total <= 0:
        return ShownProgress(share=None, label=f"{done:g}", text=text)
    share = min(max(done / total, 0.0), 1.0)
    amount = f"{share:.0%}" if total in (1.0, 100.0) else f"{done:g} of {total:g}"
    return ShownProgress(share=share, label=amount, text=text)


def _number(number: JSON) -> float | None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < 1e300
    return float(number) if is_number else None  # type: ignore[arg-type]  # as just seen
