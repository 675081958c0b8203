"""Facts of a run, what it waits for, and links to where it leads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote

from nicegui.elements.mixins.text_element import TextElement

from toolwright.core.broken_rows import all_of
from toolwright.core.errors import NotFound
from toolwright.core.json_value import JSONObject
from toolwright.core.results.content import AttachmentRef
from toolwright.core.text import brief, quantity
from toolwright.core.threads.call import CallStatus
from toolwright.core.threads.run import Run, Usage
from toolwright.web.console.variables import variables_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, file_url, link, words


def run_path(run_id: str) -> str:
    """The path of a run's page."""
    return f"/runs/{quote(run_id, safe='')}"


def thread_path(thread_id: str) -> str:
    """The path of a thread's page."""
    return f"/threads/{quote(thread_id, safe='')}"


def run_link(run_id: str, content: str = "run", classes: str = "quiet small") -> TextElement:
    """A link to a run, such as every message has that comes from one."""
    return link(content, run_path(run_id), f"run-link {classes}")


def thread_link(thread_id: str, content: str | None = None, classes: str = "") -> TextElement:
    """A link to a thread."""
    return link(content or thread_id, thread_path(thread_id), classes)


def agent_link(visit: Visit, agent_id: str, name: str) -> TextElement:
    """An agent's name; services come to its page by it."""
    if visit.is_service:
        return link(name, f"/agents/{quote(agent_id, safe='')}")
    return words(brief(name, 300))


async def agent_name(visit: Visit, agent_id: str) -> str:
    """The name of an agent; of one that is gone, its id."""
    try:
        return (await visit.runtime.agents.get(agent_id)).name
    except NotFound:
        return agent_id


def file_link(thread_id: str, ref: AttachmentRef) -> None:
    """A link that opens a file, or saves it where a browser could run it."""
    anchor = box("a", "file-link")
    anchor.props["href"] = file_url(thread_id, ref.path)
    anchor.props["target"] = "_blank"  # so that no view of the console is looked for at its path
    anchor.props["rel"] = "noopener noreferrer"
    with anchor:
        words(ref.name)


KINDS: Final[Mapping[str, str]] = {
    "queued": "busy", "running": "busy", "waiting": "waiting", "completed": "good", "failed": "bad",
    "created": "busy", "pending": "waiting", "done": "good", "resolved": "good", "error": "bad", "expired": "bad",
    "cancelled": "bad", "idle": "", "terminated": "", "skipped": "", "writing": "busy", "success": "good",
}  # fmt: skip
"""Colours of the statuses of runs, threads and calls, as `badge` takes them."""
CALL_WORDS: Final[Mapping[CallStatus, str]] = {"created": "next", "pending": "waiting", "resolved": "done"}
"""Statuses of calls in other words than their own."""


def tokens(usage: Usage) -> str:
    """Tokens that were read and written, such as `1,200 in (1,000 cached) · 80 out`; nothing if there were none."""
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens:,} in{cached} · {usage.output_tokens:,} out"


def price(cost: float | None) -> str:
    """US dollars, with as many digits as tell something; nothing where prices are not known."""
    if cost is None or cost != cost:
        return ""
    return f"${cost:,.2f}" if cost >= 1 or cost == 0 else f"${cost:.6f}".rstrip("0")


def span(begin: datetime | None, end: datetime | None) -> str:
    """Time between two instants; nothing if one of them is not there yet."""
    if begin is None or end is None:
        return ""
    seconds = max(0.0, (end - begin).total_seconds())
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def joined(*facts: str) -> str:
    """Facts beside each other, those that say nothing left out."""
    return " · ".join(filter(None, facts))


def reason(waiting: JSONObject | None) -> str:
    """What a parked run waits for, in a few words."""
    match (waiting or {}).get("reason"):
        case "variables":
            return "values that are missing"
        case "calls":
            ids = (waiting or {}).get("callIds")
            return f"the result of {quantity(len(ids), 'call')}" if isinstance(ids, list) else "results"
        case "approval":
            return "an approval"
        case "agent":
            return "a process whose app declares its agent"
        case "child":
            return "a thread below it"
        case _:
            return ""


async def draw_waiting(visit: Visit, run: Run) -> None:
    """Say what the run waits for; what somebody here can give is asked for."""
    if run.status != "waiting" or run.waiting is None:
        return
    request_id = run.waiting.get("requestId")
    if isinstance(request_id, str):
        await variables_form(visit, run.thread_id, request_id)
        return
    with box("div", "note row section"):
        words(f"This run waits for {reason(run.waiting) or 'something'}.")
        if run.waiting.get("reason") in ("calls", "approval"):
            link("Answer in Pending", "/pending")
        else:
            link("See the threads below", f"{thread_path(run.thread_id)}?tab=family")


async def draw_requests(visit: Visit, thread_id: str) -> None:
    """Ask for all values that something in the thread waits for: its run, or a child that is to begin."""
    await visit.permits.thread(visit.caller, thread_id)
    for request in all_of(await visit.runtime.requests.list(thread_id))[:10]:
        await variables_form(visit, thread_id, request.id)
