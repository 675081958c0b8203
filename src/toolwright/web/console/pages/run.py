"""One run: its timeline, live."""

import asyncio
from collections.abc import Sequence
from typing import Final

from toolwright.core.errors import NotFound
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import Run
from toolwright.web.console.live import follow
from toolwright.web.console.runs.course import Course
from toolwright.web.console.runs.facts import KINDS
from toolwright.web.console.runs.head import RunHead
from toolwright.web.console.runs.links import agent_name
from toolwright.web.console.runs.rows import draw_broken
from toolwright.web.console.runs.timeline import Timeline
from toolwright.web.console.runs.writing import Writing
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, heading, nothing, when, words

LOOK_AGAIN: Final = 2.0  # seconds between two looks at a run whose events are not for whoever looks
_GREW: Final = frozenset({"message", "step.started", "step.done"})
_STREAMS: Final = frozenset({"message.delta", "tool.streaming"})
_LOST: Final = "The journal cannot be read: this page goes on when it is back."


async def draw_run(visit: Visit, run_id: str) -> None:
    """The view: all of the run, or only how it stands."""
    run, sight = await visit.permits.look(visit.caller, run_id)
    if sight == "status":
        _draw_status(visit, run)
        return
    await RunView(visit, run).draw()


class RunView:
    """A run as those see it who may see all of it."""

    def __init__(self, visit: Visit, run: Run) -> None:
        self._visit = visit
        self._run_id = run.id
        self._lost = words(_LOST, "div", "note")
        self._lost.set_visibility(False)
        self._head = RunHead(visit)
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
        await self._take_live(events)

    async def _take_live(self, events: Sequence[Event]) -> None:
        """Progress and what the model writes; of a part that grows several times only how it is at last."""
        last = {str(each.payload.get("streamId")): each for each in events if each.type in _STREAMS}
        for event in events:
            if event.type == "tool.progress":
                await self._timeline.progress(str(event.payload.get("toolCallId")), event.payload)
            elif event.type in _STREAMS:
                if last[str(event.payload.get("streamId"))] is event or event.payload.get("truncated"):
                    await self._writing.take(event)
            elif _ends_answer(event):
                self._writing.clear()


def _ends_answer(event: Event) -> bool:
    """Whether what the model was writing is there now, or will never be."""
    message = event.payload.get("message")
    said = event.type == "message" and isinstance(message, dict) and message.get("role") == "assistant"
    return said or event.type.startswith("run.")


def _draw_status(visit: Visit, run: Run) -> None:
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

    async def watch() -> None:
        current = run
        await show(current)
        while not current.over:
            await asyncio.sleep(LOOK_AGAIN)
            current, _ = await visit.permits.look(visit.caller, run.id)
            await show(current)

    visit.view.run(watch())
