"""Pending calls and requests: everything that waits for the visitor, answered on the page."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, get_args
from urllib.parse import urlencode

from nicegui import ui
from nicegui.element import Element

from toolwright.core.errors import NotFound, StoreError
from toolwright.core.limits import PageLimit, ended_early
from toolwright.core.text import brief
from toolwright.core.threads.approval import terms_from_json
from toolwright.core.threads.call import OPEN, Call, CallStatus, is_over
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import Run
from toolwright.core.value import Value
from toolwright.runtime.children.requests import RequestStatus
from toolwright.web.auth.permits import asks_somebody
from toolwright.web.console.dialogs import VariablesForm
from toolwright.web.console.live import follow
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, heading, link, nothing, plain_text, when

MAX_LISTED: Final = 50
_THREADS: Final = 200  # newest threads of a person that are checked
PAGE: Final = 25
MAX_COUNTED: Final = 100
_READ: Final = 100  # rows per read
_ROUNDS: Final = 20  # reads per page: children in progress lie between the calls that wait for people
_MAX_NAMES: Final = 5  # approvers listed
POLL_INTERVAL: Final = 2.0
"""Seconds between two polls, because there is no stream of the invisible calls of all threads."""
MAX_OVER: Final = 25  # answered calls that the view still shows


class WaitingRequest(Value):
    """An open request for values of a run."""

    thread_id: str
    run: Run
    request: RequestStatus


async def open_requests(visit: Visit) -> Sequence[WaitingRequest]:
    """Return the requests of suspended runs, oldest first. For a person: in their threads."""
    requests: list[WaitingRequest] = []
    for run in reversed(await _parked(visit)):
        request_id = (run.waiting or {}).get("requestId")
        if isinstance(request_id, str) and len(requests) < MAX_LISTED:
            with suppress(NotFound):  # just answered
                await visit.permits.request(visit.caller, run.thread_id, request_id)
                request = await visit.runtime.requests.get(run.thread_id, request_id)
                requests.append(WaitingRequest(thread_id=run.thread_id, run=run, request=request))
    return requests


async def _parked(visit: Visit) -> Sequence[Run]:
    """Return runs that wait for values, newest first."""
    caller, runtime = visit.caller, visit.runtime
    if caller.users is None:
        runs = await runtime.runs.list(status="waiting", limit=200)
    else:
        threads = await runtime.threads.list(among=caller.users, order="newest_first", limit=_THREADS)
        runs = [await runtime.runs.get(each.run_id) for each in threads if each.run_id is not None]
    return [
        run for run in runs if run.status == "waiting" and (run.waiting or {}).get("reason") == "variables"
    ]


_ALL: Final[tuple[CallStatus, ...]] = get_args(CallStatus)


class Filter(Value):
    """Selection of calls by agent id and space id. None selects all."""

    agent: str | None = None
    space_id: str | None = None


class CallPage(Value):
    """A page of waiting calls. `next` is the first row of the next page, or None at the end."""

    calls: Sequence[Call]
    next: int | None = None


async def read_page(visit: Visit, selection: Filter, first: int = 0, most: int = PAGE) -> CallPage:
    """Return a page of waiting calls, oldest first, from the row `first` on."""
    calls: list[Call] = []
    place = first
    for _ in range(_ROUNDS):
        rows = await visit.runtime.calls.list(
            status=OPEN,
            agent=selection.agent,
            space_id=selection.space_id,
            sees=visit.caller.sight,
            limit=PageLimit(_READ),
            offset=place,
        )
        for row in rows:
            place += 1
            if waits_for_somebody(row):
                calls.append(row)
                if len(calls) == most:
                    return CallPage(calls=calls, next=place)
        if len(rows) < _READ and not ended_early(rows):
            return CallPage(calls=calls)
    return CallPage(calls=calls, next=place)


async def count_calls(visit: Visit) -> int:
    """Return the number of calls that wait for a person, at most a hundred."""
    page = await read_page(visit, Filter(), most=MAX_COUNTED)
    return len([call for call in page.calls if visit.is_service or _may_be_theirs(call)])


async def read_again(visit: Visit, call: Call) -> Call | None:
    """Return the call's current state as visible to the visitor, or None if they cannot see it."""
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
        place += len(rows)
    return None


def waits_for_somebody(call: Call) -> bool:
    """Return whether a caller can answer the call. Children in progress and server tasks complete by themselves."""
    return call.awaits_approval or not call.ends_with_run


def _may_be_theirs(call: Call) -> bool:
    """Return whether a person who sees the call might be allowed to answer it, judging by its row only."""
    by = terms_from_json(call.terms).by if call.awaits_approval else "anyone"
    return by != "service" and (asks_somebody(call) or (call.visible and call.space_id is not None))


async def answerers(visit: Visit, call: Call, space: str | None) -> str:
    """Describe who may answer the call; `space` is the name of the space that shows it."""
    text = await _answerers(visit, call, space)
    return f"{text}, but not who asked for it" if terms_from_json(call.terms).not_by else text


async def _answerers(visit: Visit, call: Call, space: str | None) -> str:
    by = terms_from_json(call.terms).by if call.awaits_approval else "anyone"
    if by == "service":
        return "a service"
    if not isinstance(by, str):
        names = [await _name_of(visit, each) for each in by[:_MAX_NAMES]]
        more = f" and {len(by) - _MAX_NAMES} more" if len(by) > _MAX_NAMES else ""
        return f"{', '.join(names)}{more}"
    if by == "person":
        return "a person who sees it"
    if not call.visible or call.space_id is None:
        return "the thread's user or a service" if await _asks_owner(visit, call) else "a service"
    return "anyone in its space" if space is None else f"anyone in {brief(space, 100)}"


async def _asks_owner(visit: Visit, call: Call) -> bool:
    """Return whether a person may answer the call because it is in their thread."""
    if not asks_somebody(call):
        return False
    try:
        return (await visit.runtime.threads.get(call.thread_id)).user_id is not None
    except NotFound:
        return False


async def _name_of(visit: Visit, person: str) -> str:
    entities = visit.runtime.entities
    entity = await entities.get_by_external_id(person) or await entities.get_for_display(person)
    return brief(person if entity is None else entity.display_name or person, 60)


_SPACES = Topic(kind="spaces", id="")


async def draw_pending(visit: Visit) -> None:
    """Render the pending items, oldest first. Items answered in the meantime stay until the page is left."""
    selection = Filter(agent=visit.query.get("agent"), space_id=visit.query.get("space"))
    first = visit.query.get("from", "0")
    with box("div", "head"):
        heading("Pending")
        box("span", "fill")
        if visit.is_service:
            await _draw_filters(visit, selection)
    view = _Pending(visit, selection, int(first) if first.isdecimal() and len(first) < 10 else 0)
    visit.view.run(follow(visit, _SPACES, read=view.refresh, draw=view.process_events))
    visit.view.run(view.keep_looking())


async def count_pending(visit: Visit) -> int:
    """Return the number of items that wait for the visitor, at most a few hundred."""
    return await count_calls(visit) + min(len(await _parked(visit)), MAX_LISTED)


@dataclass(slots=True)
class _DrawnCall:
    """A call drawn in the list."""

    call: Call
    element: Element
    facts: Element
    card: CallCard


class _Pending:
    """The list of pending items on the page."""

    def __init__(self, visit: Visit, selection: Filter, first: int) -> None:
        self._visit = visit
        self._selection = selection
        self._first = first
        self._calls: dict[str, _DrawnCall] = {}
        self._requests: dict[str, tuple[Element, VariablesForm]] = {}
        self._looking = asyncio.Lock()
        self._values = box("div", "stack")
        self._list = box("div", "stack")
        self._list.props["role"] = "list"
        self._empty = box("div")
        self._more = box("div", "row section")
        self._next: int | None = -1

    async def keep_looking(self) -> None:
        """Refresh periodically, until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            try:
                await self.refresh()
            except StoreError:
                continue  # reported by `follow`

    async def process_events(self, events: Sequence[Event]) -> None:
        """Process an event of a space. Calls shown there are updated immediately."""
        if any(event.type in ("space.message", "message_updated", "message_deleted") for event in events):
            await self.refresh()

    async def refresh(self) -> None:
        """Show the current pending items."""
        async with self._looking:
            page = await read_page(self._visit, self._selection, self._first)
            waiting = {call.id: call for call in page.calls}
            for call_id, card in [*self._calls.items()]:
                await self._show_again(call_id, card, waiting.get(call_id))
            for call_id, call in waiting.items():
                if call_id not in self._calls:
                    await self._add(call)
            if not self._selection.space_id and not self._selection.agent:
                await self._show_requests()
            self._drop_old()
            self._show_end(page.next)

    async def _add(self, call: Call) -> None:
        with self._list:
            element = box("div", "pending")
            element.props["role"] = "listitem"
            with element:
                facts = box("div", "row quiet small")
                card = CallCard(self._visit)
        self._calls[call.id] = _DrawnCall(call, element, facts, card)
        await self._draw_facts(facts, call)
        card.after_answer = lambda: self._visit.view.run(self.refresh())
        await card.show_row(call)

    async def _show_again(self, call_id: str, card: _DrawnCall, call: Call | None) -> None:
        """Update the call. A call that no longer exists is shown as ended."""
        if call is None:
            if is_over(card.call.status):
                return
            call = await read_again(self._visit, card.call)
        if call is None:
            card.element.delete()
            del self._calls[call_id]
        elif call != card.call:
            card.call = call
            await self._draw_facts(card.facts, call)
            await card.card.show_row(call)

    async def _draw_facts(self, facts: Element, call: Call) -> None:
        space = await self._space_name(call.space_id)
        who = await answerers(self._visit, call, space)
        with facts.clear():
            if call.space_id is not None and space is not None:
                link(brief(space, 80), f"/spaces/{call.space_id}")
            when(call.created_at)
            if call.status not in OPEN:
                return
            plain_text(f"answered by {who}")
            until = call.expires_at or call.deadline
            if until is not None:
                _until(until)

    async def _space_name(self, space_id: str | None) -> str | None:
        if space_id is None:
            return None
        try:
            space = await self._visit.permits.space(self._visit.caller, space_id)
        except NotFound:
            return None
        return space.name or space.id

    async def _show_requests(self) -> None:
        requests = {each.request.request_id: each for each in await open_requests(self._visit)}
        for request_id in self._requests.keys() - requests.keys():
            element, _ = self._requests.pop(request_id)
            element.delete()
        for request_id, request in requests.items():
            if request_id not in self._requests:
                self._requests[request_id] = self._draw_request(request)
            _, form = self._requests[request_id]
            await form.refresh()

    def _draw_request(self, request: WaitingRequest) -> tuple[Element, VariablesForm]:
        with self._values, box("div", "pending") as element:
            with box("div", "row quiet small"):
                when(request.run.created_at)
                link("Run", f"/runs/{request.run.id}")
            return element, VariablesForm(self._visit, request.thread_id, request.request.request_id)

    def _drop_old(self) -> None:
        over = [call_id for call_id, card in self._calls.items() if is_over(card.call.status)]
        for call_id in over[:-MAX_OVER]:
            self._calls.pop(call_id).element.delete()

    def _show_end(self, next_page: int | None) -> None:
        self._empty.clear()
        if not self._calls and not self._requests:
            with self._empty:
                nothing(
                    "Nothing is pending." if not self._first else "No more pending calls.",
                    "Calls that need an answer or an approval, and runs that need values, appear here.",
                )
        if next_page == self._next:
            return
        self._next = next_page
        with self._more.clear():
            if self._first:
                link("First page", self._path(0))
            if next_page is not None:
                link("Next page", self._path(next_page))

    def _path(self, first: int) -> str:
        return path_of(self._selection, first)


def path_of(selection: Filter, first: int = 0) -> str:
    """Return the path of a page of the list."""
    query = {"agent": selection.agent, "space": selection.space_id, "from": str(first) if first else None}
    parameters = {name: each for name, each in query.items() if each}
    return f"/pending?{urlencode(parameters)}" if parameters else "/pending"


def _until(instant: datetime) -> None:
    element = plain_text(f"· Answer until {instant:%Y-%m-%d %H:%M} UTC", "time")
    element.props["data-until"] = instant.isoformat()


async def _draw_filters(visit: Visit, selection: Filter) -> None:
    agents = {each.id: brief(each.name, 60) for each in await visit.runtime.agents.list(200)}
    spaces = {each.id: brief(each.name or each.id, 60) for each in await visit.runtime.spaces.list(200)}
    _filter(
        "Agent",
        agents,
        selection.agent,
        lambda chosen: path_of(Filter(agent=chosen, space_id=selection.space_id)),
    )
    _filter(
        "Space",
        spaces,
        selection.space_id,
        lambda chosen: path_of(Filter(agent=selection.agent, space_id=chosen)),
    )


def _filter(label: str, names: dict[str, str], chosen: str | None, path: Callable[[str | None], str]) -> None:
    options = {"": f"All {label.lower()}s", **names}
    if chosen:
        options.setdefault(chosen, brief(chosen, 60))
    select = ui.select(
        options, value=chosen or "", on_change=lambda event: ui.navigate.to(path(event.value or None))
    )
    select.props("outlined dense options-dense").classes("filter")
    select.props["aria-label"] = label
