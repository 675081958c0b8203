"""Runs that wait for values, as far as a visitor may answer them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from toolwright.core.errors import NotFound
from toolwright.core.threads.run import Run
from toolwright.core.value import value
from toolwright.runtime.children.requests import Wanted
from toolwright.web.console.visit import Visit

MOST: Final = 50
_THREADS: Final = 200  # of a person, that are looked at, the newest


@value
class Request:
    """An open request for values of a run."""

    thread_id: str
    run: Run
    wanted: Wanted


async def open_requests(visit: Visit) -> Sequence[Request]:
    """Requests of parked runs, the oldest first: of a person those in their threads."""
    found: list[Request] = []
    for run in reversed(await _parked(visit)):
        request_id = (run.waiting or {}).get("requestId")
        if isinstance(request_id, str) and len(found) < MOST:
            with suppress(NotFound):  # answered a moment ago
                await visit.permits.request(visit.caller, run.thread_id, request_id)
                wanted = await visit.runtime.requests.get(run.thread_id, request_id)
                found.append(Request(thread_id=run.thread_id, run=run, wanted=wanted))
    return found


async def count_requests(visit: Visit) -> int:
    """How many runs wait for values that the visitor may give."""
    return min(len(await _parked(visit)), MOST)


async def _parked(visit: Visit) -> Sequence[Run]:
    """Runs that wait for values, the newest first."""
    caller, runtime = visit.caller, visit.runtime
    if caller.users is None:
        runs = await runtime.runs.list(status="waiting", limit=200)
    else:
        threads = await runtime.threads.list(among=caller.users, order="newest_first", limit=_THREADS)
        runs = [await runtime.runs.get(each.run_id) for each in threads if each.run_id is not None]
    return [
        run for run in runs if run.status == "waiting" and (run.waiting or {}).get("reason") == "variables"
    ]
