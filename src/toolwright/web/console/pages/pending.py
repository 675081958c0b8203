"""The view of everything that waits for somebody, answered in place."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from nicegui import ui
from nicegui.element import Element

from toolwright.core.errors import NotFound, StoreError
from toolwright.core.text import brief
from toolwright.core.threads.call import OPEN, Call, is_over
from toolwright.core.threads.event import Event, Topic
from toolwright.web.console.live import follow
from toolwright.web.console.pending.calls import (
    Filter,
    Request,
    answerers,
    count_calls,
    count_requests,
    open_requests,
    read_again,
    read_page,
)
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.variables import VariablesForm
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, heading, link, nothing, when, words

LOOK_AGAIN: Final = 2.0
"""Seconds between two looks at the journal: invisible calls of all threads have no events that one could follow."""
MOST_OVER: Final = 25  # calls that were answered while the view is shown, and that it still shows
_SPACES = Topic(kind="spaces", id="")


async def draw_pending(visit: Visit) -> None:
    """What waits, the oldest first; what is answered meanwhile stays until somebody leaves."""
    wanted = Filter(agent=visit.query.get("agent"), space_id=visit.query.get("space"))
    first = visit.query.get("from", "0")
    with box("div", "head"):
        heading("Pending")
        box("span", "fill")
        if visit.is_service:
            await _draw_filters(visit, wanted)
    view = _Pending(visit, wanted, int(first) if first.isdecimal() and len(first) < 10 else 0)
    visit.view.run(follow(visit, _SPACES, read=view.look, draw=view.hear))
    visit.view.run(view.keep_looking())


async def count_pending(visit: Visit) -> int:
    """How much waits for the visitor: at most some hundred are counted."""
    return await count_calls(visit) + await count_requests(visit)


@dataclass(slots=True)
class _Shown:
    """A call in the list."""

    call: Call
    element: Element
    facts: Element
    card: CallCard


class _Pending:
    """The list on the page."""

    def __init__(self, visit: Visit, wanted: Filter, first: int) -> None:
        self._visit = visit
        self._wanted = wanted
        self._first = first
        self._calls: dict[str, _Shown] = {}
        self._requests: dict[str, tuple[Element, VariablesForm]] = {}
        self._looking = asyncio.Lock()
        self._values = box("div", "stack")
        self._list = box("div", "stack")
        self._list.props["role"] = "list"
        self._empty = box("div")
        self._more = box("div", "row section")
        self._next: int | None = -1

    async def keep_looking(self) -> None:
        """Look repeatedly: forever."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                await self.look()
            except StoreError:
                continue  # `follow` says so

    async def hear(self, events: Sequence[Event]) -> None:
        """Something has happened in a space: calls that are shown there are told of at once."""
        if any(event.type in ("space.message", "message_updated", "message_deleted") for event in events):
            await self.look()

    async def look(self) -> None:
        """Show what waits now."""
        async with self._looking:
            page = await read_page(self._visit, self._wanted, self._first)
            waiting = {call.id: call for call in page.calls}
            for call_id, shown in [*self._calls.items()]:
                await self._show_again(call_id, shown, waiting.get(call_id))
            for call_id, call in waiting.items():
                if call_id not in self._calls:
                    await self._add(call)
            if not self._wanted.space_id and not self._wanted.agent:
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
        self._calls[call.id] = _Shown(call, element, facts, card)
        await self._draw_facts(facts, call)
        card.after_answer = lambda: self._visit.view.run(self.look())
        await card.show_row(call)

    async def _show_again(self, call_id: str, shown: _Shown, call: Call | None) -> None:
        """The call as it is now; one that is not there any more, as it has ended."""
        if call is None:
            if is_over(shown.call.status):
                return
            call = await read_again(self._visit, shown.call)
        if call is None:
            shown.element.delete()
            del self._calls[call_id]
        elif call != shown.call:
            shown.call = call
            await self._draw_facts(shown.facts, call)
            await shown.card.show_row(call)

    async def _draw_facts(self, facts: Element, call: Call) -> None:
        space = await self._space_name(call.space_id)
        who = await answerers(self._visit, call, space)
        with facts.clear():
            if call.space_id is not None and space is not None:
                link(brief(space, 80), f"/spaces/{call.space_id}")
            when(call.created_at)
            if call.status not in OPEN:
                return
            words(f"answered by {who}")
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
        requests = {each.wanted.request_id: each for each in await open_requests(self._visit)}
        for request_id in self._requests.keys() - requests.keys():
            element, _ = self._requests.pop(request_id)
            element.delete()
        for request_id, request in requests.items():
            if request_id not in self._requests:
                self._requests[request_id] = self._draw_request(request)
            _, form = self._requests[request_id]
            await form.refresh()

    def _draw_request(self, request: Request) -> tuple[Element, VariablesForm]:
        with self._values, box("div", "pending") as element:
            with box("div", "row quiet small"):
                when(request.run.created_at)
                link("Run", f"/runs/{request.run.id}")
            return element, VariablesForm(self._visit, request.thread_id, request.wanted.request_id)

    def _drop_old(self) -> None:
        over = [call_id for call_id, shown in self._calls.items() if is_over(shown.call.status)]
        for call_id in over[:-MOST_OVER]:
            self._calls.pop(call_id).element.delete()

    def _show_end(self, following: int | None) -> None:
        self._empty.clear()
        if not self._calls and not self._requests:
            with self._empty:
                nothing(
                    "Nothing waits for anybody." if not self._first else "Nothing more.",
                    "Calls that need an answer or an approval, and runs that need values, appear here.",
                )
        if following == self._next:
            return
        self._next = following
        with self._more.clear():
            if self._first:
                link("To the oldest", self._path(0))
            if following is not None:
                link("Later ones", self._path(following))

    def _path(self, first: int) -> str:
        return path_of(self._wanted, first)


def path_of(wanted: Filter, first: int = 0) -> str:
    """The path of that part of the list."""
    query = {"agent": wanted.agent, "space": wanted.space_id, "from": str(first) if first else None}
    given = {name: each for name, each in query.items() if each}
    return f"/pending?{urlencode(given)}" if given else "/pending"


def _until(instant: datetime) -> None:
    shown = words(f"· Answer until {instant:%Y-%m-%d %H:%M} UTC", "time")
    shown.props["data-until"] = instant.isoformat()


async def _draw_filters(visit: Visit, wanted: Filter) -> None:
    agents = {each.id: brief(each.name, 60) for each in await visit.runtime.agents.list(200)}
    spaces = {each.id: brief(each.name or each.id, 60) for each in await visit.runtime.spaces.list(200)}
    _filter(
        "Agent", agents, wanted.agent, lambda chosen: path_of(Filter(agent=chosen, space_id=wanted.space_id))
    )
    _filter(
        "Space", spaces, wanted.space_id, lambda chosen: path_of(Filter(agent=wanted.agent, space_id=chosen))
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
