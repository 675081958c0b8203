"""What a run waits for, and where that is given to it."""

from toolwright.core.broken_rows import all_of
from toolwright.core.json_value import JSONObject
from toolwright.core.text import quantity
from toolwright.core.threads.run import Run
from toolwright.web.console.runs.links import thread_path
from toolwright.web.console.variables import variables_form
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, link, words


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
