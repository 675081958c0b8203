"""One run: its timeline, live."""

from collections.abc import Sequence
from typing import Final

from toolwright.core.errors import NotFound
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import Run
from toolwright.web.console.browsing import tabs
from toolwright.web.console.live import follow, look_again
from toolwright.web.console.runs.course import Course
from toolwright.web.console.runs.facts import KINDS
from toolwright.web.console.runs.head import RunHead
from toolwright.web.console.runs.links import agent_name, run_path
from toolwright.web.console.runs.prompts import draw_prompts
from toolwright.web.console.runs.rows import LOST, draw_broken
from toolwright.web.console.runs.timeline import Timeline
from toolwright.web.console.runs.writing import Writing
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, heading, nothing, when, words

TABS: Final = {"timeline": "Timeline", "prompts": "Prompts"}
LOOK_AGAIN: Final = 2.0  # seconds between two looks at a run whose events are not for whoever looks
_GREW: Final = frozenset({"message", "step.started", "step.done"})


async def draw_run(visit: Visit, run_id: str) -> None:
    """The view: all of the run, or only how it stands."""
    run, sight = await visit.permits.look(visit.caller, run_id)
    if sight == "status":
        await _draw_status(visit, run)
        return
    if visit.query.get("tab") == "prompts":
        await RunHead(visit).show(run)
        tabs(run_path(run.id), TABS, "prompts")
        await draw_prompts(visit, run)
        return
    await RunView(visit, run).draw()


class RunView:
    """A run as those see it who may see all of it."""

    def __init__(self, visit: Visit, run: Run) -> None:
        self._visit = visit
        self._run_id = run.id
        self._lost = words(LOST, "div", "note")
        self._lost.set_visibility(False)
        self._head = RunHead(visit)
        tabs(run_path(run.id), TABS, "timeline")
        words("Timeline", "h2", "section")
        self._course = Course(visit, run)
        self._timeline = Timeline(visit, self._course)
        self._writing = Writing(visit)
        self._empty = box("div")

    async def draw(self) -> None:
        """Draw it, and keep it as it is."""
        topic = Topic(kind="run", id=self._run_id)
        work = follow(self._visit, topic, read=self._read, draw=self._take, lost=self._lost.set_visibility)
        await self._show_head()
        self._visit.view.run(work)

    async def _read(self) -> None:
        await self._show_head()
        await self._course.read()
        await self._timeline.draw()
        self._writing.clear()
        with self._empty.clear():
            draw_broken(self._course.broken)
            if not self._course.numbers:
                nothing("Nothing has happened yet.", "Its steps appear here as they are made.")

    async def _show_head(self) -> None:
        await self._visit.permits.run(self._visit.caller, self._run_id)
        self._course.run = await self._visit.runtime.runs.get(self._run_id)
        await self._head.show(self._course.run)

    async def _take(self, events: Sequence[Event]) -> None:
        """What has happened, in order of importance: rows are read anew, so that nothing is drawn that is not there."""
        types = {each.type for each in events}
        if types & _GREW or any(each.startswith("run.") for each in types):
            try:
                await self._show_head()
            except NotFound:
                self._visit.view.close()
                return
        if types & _GREW or "tool.started" in types:
            self._empty.clear()
            await self._timeline.look_again()
        touched = dict.fromkeys(
            [str(each.payload["toolCallId"]) for each in events if "toolCallId" in each.payload]
        )
        for call_id in touched:
            try:
                call = await self._visit.permits.call(self._visit.caller, call_id)
            except NotFound:
                continue
            await self._timeline.show_calls([call])
        await self._writing.take_all(events, self._timeline.progress)


async def _draw_status(visit: Visit, run: Run) -> None:
    """What a person sees of a run that they caused in a thread that is not theirs (D24)."""
    heading("Run")
    card = box("div", "card stack")

    async def show(current: Run) -> None:
        name = await agent_name(visit, current.agent)
        with card.clear():
            with box("div", "row"):
                words(name, "span", "title")
                badge(current.status, KINDS.get(current.status, ""))
            when(current.started_at or current.created_at)
            words(
                "It runs in a thread that is not yours: you see how it stands, not what is said there.",
                "p",
                "quiet",
            )

    async def read() -> None:
        current, _ = await visit.permits.look(visit.caller, run.id)
        await show(current)

    await show(run)
    if not run.over:
        visit.view.run(look_again(read, LOOK_AGAIN))
