"""Runs, the newest first: which there are, how they stand and what they cost."""

import asyncio
from collections.abc import Mapping
from typing import Final, get_args
from urllib.parse import quote

from nicegui.element import Element

from toolwright.core.text import brief
from toolwright.core.threads.run import Run, RunStatus
from toolwright.web.console.browsing import check_service
from toolwright.web.console.runs.facts import KINDS, joined, price, span, tokens
from toolwright.web.console.runs.filters import choice_filter, page_of, pager, text_filter
from toolwright.web.console.runs.links import agent_name, run_path
from toolwright.web.console.runs.rows import Rows, draw_broken
from toolwright.web.console.runs.waiting import reason
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, heading, link, nothing, when, words

PAGE: Final = 50
LOOK_AGAIN: Final = 2.0
"""Seconds between two looks: no topic tells of all runs, and one query of a page costs less than following them all."""
STATUSES: Final[Mapping[str, RunStatus]] = {each: each for each in get_args(RunStatus)}


async def draw_runs(visit: Visit) -> None:
    """The view, for services alone as in the API."""
    check_service(visit)
    with box("div", "head"):
        heading("Runs")
        box("div", "fill")
        choice_filter(visit, "/runs", "status", "Status", STATUSES)
        text_filter(visit, "/runs", "agent", "Agent")
        text_filter(visit, "/runs", "thread", "Thread")
    await RunList(visit).draw()


class RunList:
    """A page of them, kept as they are."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._page = page_of(visit.query)
        self._names: dict[str, str] = {}
        self._broken = box("div")
        self._empty = box("div")
        self._rows = Rows[Run](_open_row, self._draw_row)
        self._pager = box("div")
        self._more: bool | None = None

    async def draw(self) -> None:
        """Draw the page, and keep looking."""
        await self._read()
        self._visit.view.run(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            await self._read()

    async def _read(self) -> None:
        check_service(self._visit)
        query = self._visit.query
        agent = query.get("agent")
        runs = await self._visit.runtime.runs.list(
            status=STATUSES.get(query.get("status", "")),
            agent=None if not agent else await self._visit.runtime.agents.id_of(agent),
            thread_id=query.get("thread") or None,
            limit=PAGE + 1,
            offset=(self._page - 1) * PAGE,
        )
        for agent_id in {each.agent for each in runs} - {*self._names}:
            self._names[agent_id] = await agent_name(self._visit, agent_id)
        self._rows.show({each.id: each for each in runs[:PAGE]})
        self._draw_rest(empty=not runs, more=len(runs) > PAGE)
        with self._broken.clear():
            draw_broken(runs)

    def _draw_rest(self, *, empty: bool, more: bool) -> None:
        with self._empty.clear():
            if empty and {*self._visit.query} - {"page"}:
                nothing("No run is like that.", "Take a filter away.")
            elif empty:
                nothing("There are no runs here yet.", "A run begins when somebody writes to an agent.")
        if more != self._more:
            self._more = more
            with self._pager.clear():
                pager(self._visit, "/runs", self._page, more=more)

    def _draw_row(self, run: Run) -> None:
        badge(run.status, KINDS.get(run.status, ""))
        with box("span", "fill"):
            words(self._names.get(run.agent, run.agent), "span", "title")
            about = run.error if run.error is not None else reason(run.waiting)
            words(brief(about, 160), "div", "bad small" if run.error else "quiet small")
        words(joined(tokens(run.usage), price(run.cost)), "span", "quiet small wide")
        words(span(run.started_at, run.completed_at), "span", "quiet small")
        when(run.started_at or run.created_at, "quiet small")


def _open_row(run_id: str) -> Element:
    row = link("", run_path(run_id), "item")
    row.props["data-run"] = quote(run_id)
    return row
