"""Tool calls as lines that can be opened: arguments, result, files and errors."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.errors import InvalidJSON, NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import AttachmentRef
from toolwright.core.text import brief, quantity
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.tools.tool_ui import ShownCall
from toolwright.core.value import Value, changed
from toolwright.runtime.threads.thread_tree import child_id_of
from toolwright.web.console.runs.facts import STATUS_LABELS, file_link, joined, span, thread_link
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import (
    MAX_SHOWN,
    box,
    code,
    draw_decisions,
    file_url,
    json_text,
    link,
    plain_text,
    size,
)
from toolwright.web.routes.threads import INLINE_TYPES
from toolwright.wire.call import arguments_json, call_message_id
from toolwright.wire.result import result_from_json

MAX_FILES: Final = 20  # per call or message
MAX_PREVIEW: Final = 5_000_000  # bytes of an image shown inline
GIST: Final = 90  # characters of arguments in the line
_STATUSES: Final[Mapping[str, str]] = {"waiting": "requires_action", "pending": "requires_action", "done": "complete",
    "resolved": "complete", "created": "running", "running": "running"}  # fmt: skip


class CallLine(Value):
    """Data of a call's line, in addition to the call itself: its status in a word, times, and links."""

    call: ShownCall
    status: str
    facts: str = ""
    links: tuple[tuple[str, str], ...] = ()
    child_id: str | None = None
    stack: str | None = None
    row: Call | None = None


def line_of(row: Call, *, for_service: bool) -> CallLine:
    """Return the line of a recorded call. Stack traces are shown only to services."""
    result, error, stack, refs = _outcome(row)
    call = ShownCall(
        id=row.id,
        name=row.name,
        args=arguments_json(row.arguments),
        status=_STATUSES.get(row.status, "error") if error is None else "error",  # pyright: ignore[reportArgumentType]  # the table's values are these statuses
        result=result,
        error=error,
        attachments=refs,
        run_id=row.run_id,
        thread_id=row.thread_id,
    )
    status = "error" if error is not None and row.status in ("done", "resolved") else row.status
    facts = joined(
        span(row.started_at, row.completed_at), f"attempt {row.attempts}" if row.attempts > 1 else ""
    )
    return CallLine(
        call=call,
        status=STATUS_LABELS.get(row.status, status) if status == row.status else status,
        facts=facts,
        links=_links(row),
        child_id=child_id_of(row.id) if row.has_child else None,
        stack=stack if for_service else None,
        row=row,
    )


def with_progress(line: CallLine, payload: JSONObject) -> CallLine:
    """Return the line of a call with its reported progress."""
    done, total, text = payload.get("done"), payload.get("total"), payload.get("text")
    if not isinstance(done, (int, float)):
        return line
    most = float(total) if isinstance(total, (int, float)) else None
    return changed(
        line, call=changed(line.call, progress=(float(done), most, text if isinstance(text, str) else ""))
    )


async def draw_call(visit: Visit, line: CallLine) -> None:
    """Render the current state of a call: arguments, progress, files, and its result or error."""
    call = line.call
    with box("div", "row small"):
        for content, path in line.links:
            link(content, path)
        if line.child_id is not None and await _may_see(visit, line.child_id):
            thread_link(line.child_id, "Its thread")
    if line.row is not None:
        draw_decisions(line.row.decisions)
    if call.args not in (None, {}):
        plain_text("Arguments", "h4")
        code(await shown_json(call.args))
    if call.error is not None:
        plain_text("Error", "h4")
        plain_text(call.error, "div", "error")
    elif call.status == "complete":
        plain_text("Result", "h4")
        code(call.result if isinstance(call.result, str) else await shown_json(call.result))
    if call.thread_id is not None:
        draw_files(call.thread_id, call.attachments)
    if line.stack is not None:
        plain_text("Stack trace", "h4")
        code(line.stack)


def draw_files(thread_id: str, refs: Sequence[AttachmentRef]) -> None:
    """Render files by name and size. Images of types without scripts are displayed."""
    for ref in refs[:MAX_FILES]:
        with box("figure", "attachment"):
            if (
                ref.mime_type in INLINE_TYPES
                and ref.mime_type.startswith("image/")
                and ref.size <= MAX_PREVIEW
            ):
                image = box("img", "thumbnail")
                image.props["src"] = file_url(thread_id, ref.path)
                image.props["alt"] = brief(ref.description or ref.name, 300)
                image.props["loading"] = "lazy"
            with box("figcaption", "row small"):
                file_link(thread_id, ref)
                plain_text(joined(brief(ref.mime_type, 80), size(ref.size)), "span", "quiet")
    if len(refs) > MAX_FILES:
        plain_text(f"and {quantity(len(refs) - MAX_FILES, 'file')} more", "p", "quiet small")


async def shown_json(content: JSON) -> str:
    """Return JSON for display. Long JSON is truncated, with a note about its length."""
    return await in_thread_if_large(content, _cut_json, content)


async def _may_see(visit: Visit, thread_id: str) -> bool:
    """Return whether the call has a child thread. A handover to another agent has none."""
    try:
        await visit.permits.thread(visit.caller, thread_id)
        await visit.runtime.threads.get(thread_id)
    except NotFound:
        return False
    return True


def gist(args: JSON) -> str:
    """Return the arguments in one line."""
    if isinstance(args, dict):
        few = [f"{brief(name, 30)}: {_short(args[name])}" for name in [*args][:4]]
        return brief(", ".join(few), GIST)
    return "" if args is None else _short(args)


def _short(content: JSON) -> str:
    if isinstance(content, str):
        return brief(" ".join(content[: 2 * GIST].split()), GIST // 2)
    if isinstance(content, dict):
        return f"{{{len(content)}}}"
    if isinstance(content, list):
        return f"[{len(content)}]"
    return brief(str(content), 40)


def _outcome(row: Call) -> tuple[JSON, str | None, str | None, tuple[AttachmentRef, ...]]:
    """Return the result, error, stack trace and files of a call."""
    if row.result is None:
        return (
            None,
            f"This call was {row.status}." if row.status in ("expired", "cancelled") else None,
            None,
            (),
        )
    try:
        result = result_from_json(row.result)
    except InvalidJSON as broken:
        return None, broken.message, None, ()
    refs = tuple([each for each in result.attachments if isinstance(each, AttachmentRef)])
    error = (result.error or "The tool failed.") if result.status == "error" else None
    return result.result, error, result.stack, refs


def _links(row: Call) -> tuple[tuple[str, str], ...]:
    """Return the links of a call: to the page on which it can be answered, and to the message that shows it."""
    links: list[tuple[str, str]] = []
    if row.status in OPEN and not row.has_child:
        links.append(("Answer it in Pending", "/pending"))
    if row.visible and row.space_id is not None:
        links.append(
            ("Its message in the space", f"/spaces/{quote(row.space_id, safe='')}#{call_message_id(row.id)}")
        )
    return tuple(links)


def _cut_json(content: JSON) -> str:
    return brief(json_text(content), MAX_SHOWN)
