"""Calls and requests that wait for somebody."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, get_args

from toolwright.core.broken_rows import broken_of, ended_early
from toolwright.core.errors import NotFound
from toolwright.core.limits import PageLimit
from toolwright.core.text import brief
from toolwright.core.threads.approval import terms_from_json
from toolwright.core.threads.call import OPEN, Call, CallStatus
from toolwright.core.threads.run import Run
from toolwright.core.value import value
from toolwright.runtime.children.requests import Wanted
from toolwright.web.auth.permits import asks_somebody
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


PAGE: Final = 25
MOST_COUNTED: Final = 100
_READ: Final = 100  # rows at a time
_ROUNDS: Final = 20  # such readings for one page: children in progress lie between those that wait for people
_ALL: Final[tuple[CallStatus, ...]] = get_args(CallStatus)
_NAMED: Final = 5  # approvers


@value
class Filter:
    """Which of them are wanted, by an agent's id and a space's; None for all."""

    agent: str | None = None
    space_id: str | None = None


@value
class Page:
    """Some of the calls that wait; `next` is where the next page begins, None at the end."""

    calls: Sequence[Call]
    next: int | None = None


async def read_page(visit: Visit, wanted: Filter, first: int = 0, most: int = PAGE) -> Page:
    """A page of them, the oldest first, from the row `first` on."""
    calls: list[Call] = []
    place = first
    for _ in range(_ROUNDS):
        rows = await visit.runtime.calls.list(
            status=OPEN,
            agent=wanted.agent,
            space_id=wanted.space_id,
            sees=visit.caller.sight,
            limit=PageLimit(_READ),
            offset=place,
        )
        for row in rows:
            place += 1
            if waits_for_somebody(row):
                calls.append(row)
                if len(calls) == most:
                    return Page(calls=calls, next=place)
        if len(rows) < _READ and not ended_early(rows):
            return Page(calls=calls)
    return Page(calls=calls, next=place)


async def count_calls(visit: Visit) -> int:
    """How many wait for somebody; no more than a hundred are counted."""
    page = await read_page(visit, Filter(), most=MOST_COUNTED)
    return len([call for call in page.calls if visit.is_service or _may_be_theirs(call)])


async def read_again(visit: Visit, call: Call) -> Call | None:
    """The call as it is now, as the visitor sees it; None if they do not (any more)."""
    if visit.is_service:
        try:
            return await visit.runtime.calls.get(call.id)
        except NotFound:
            return None
    place = 0
    while place < _ROUNDS * _READ:
        rows = await visit.runtime.calls.list(
            status=_ALL, run_id=call.run_id, sees=visit.caller.sight, limit=PageLimit(_READ), offset=place
        )
        row = next((each for each in rows if each.id == call.id), None)
        if row is not None or (len(rows) < _READ and not ended_early(rows)):
            return row
        place += len(rows) + len(broken_of(rows))
    return None


def waits_for_somebody(call: Call) -> bool:
    """Return whether anybody can answer it; an agent's child in progress and a server's task come by themselves."""
    return call.is_asked or not call.ends_with_run


def _may_be_theirs(call: Call) -> bool:
    """Return whether a person who sees the call may perhaps answer it, by its row alone."""
    by = terms_from_json(call.terms).by if call.is_asked else "anyone"
    return by != "service" and (asks_somebody(call) or (call.visible and call.space_id is not None))


async def answerers(visit: Visit, call: Call, space: str | None) -> str:
    """Who may answer the call, in words; `space` is the name of the one that it is shown in."""
    by = terms_from_json(call.terms).by if call.is_asked else "anyone"
    if by == "service":
        return "a service"
    if not isinstance(by, str):
        names = [await _name_of(visit, each) for each in by[:_NAMED]]
        more = f" and {len(by) - _NAMED} more" if len(by) > _NAMED else ""
        return f"{', '.join(names)}{more}"
    if by == "person":
        return "a person who sees it"
    if not call.visible or call.space_id is None:
        return "whose thread it is, or a service" if await _asks_owner(visit, call) else "a service"
    return "everybody in its space" if space is None else f"everybody in {brief(space, 100)}"


async def _asks_owner(visit: Visit, call: Call) -> bool:
    """Return whether the call is a person's to answer because it is made in a thread of theirs."""
    if not asks_somebody(call):
        return False
    try:
        return (await visit.runtime.threads.get(call.thread_id)).user_id is not None
    except NotFound:
        return False


async def _name_of(visit: Visit, person: str) -> str:
    entities = visit.runtime.entities
    entity = await entities.named(person) or await entities.shown(person)
    return brief(person if entity is None else entity.display_name or person, 60)
