"""The timeline of a run: its steps in order, the newest page of them first, with what was said and called."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from nicegui.element import Element

from toolwright.core.json_value import JSONObject
from toolwright.core.text import quantity
from toolwright.core.threads.call import Call
from toolwright.core.threads.message import Message
from toolwright.web.console.runs.calls import draw_files, line_of
from toolwright.web.console.runs.course import Course, Stage
from toolwright.web.console.runs.facts import joined, price, span, tokens
from toolwright.web.console.runs.fold import CallFold
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, box, prose, words

PAGE: Final = 20  # steps that are drawn at once
MOST_CALLS: Final = 50  # calls of one step that are drawn at once
LONGEST: Final = 0.02  # seconds of drawing after which others get a turn
MOST_DRAWN: Final = 60  # steps on the page, behind which the earliest are let go while it is live


class Timeline:
    """Steps on the page."""

    def __init__(self, visit: Visit, course: Course) -> None:
        self._visit = visit
        self._course = course
        self._earlier = box("div", "row earlier")
        self._list = box("div", "timeline")
        self._views: dict[int, StageView] = {}

    async def draw(self) -> None:
        """The newest page."""
        self._views.clear()
        self._list.clear()
        await self._add(self._course.numbers[-PAGE:])
        self._draw_earlier()

    async def look_again(self) -> None:
        """The run has gone on: new steps, and new calls in those that are there."""
        numbers = await self._course.look_again()
        calls = await self._course.new_calls()
        newest = max(self._views, default=-1)
        await self._add([number for number in numbers if number > newest], calls)
        for number in numbers:
            view = self._views.get(number)
            if view is not None:
                view.draw_head(self._course.stage(number))
        await self.show_calls(calls)
        self._let_go()

    async def show_calls(self, calls: Iterable[Call]) -> None:
        """These calls have changed, or are new."""
        for call in calls:
            view = self._views.get(call.step)
            if view is not None:
                await view.show(call)

    async def progress(self, call_id: str, payload: JSONObject) -> None:
        """A call has told how far it is."""
        for view in self._views.values():
            await view.progress(call_id, payload)

    async def _add(self, numbers: Sequence[int], calls: Sequence[Call] | None = None) -> None:
        """Draw steps behind all others; with calls that are at hand, or those that are read."""
        if calls is None:
            stages = await self._course.stages(numbers)
        else:
            stages = [
                self._course.stage(each, [call for call in calls if call.step == each]) for each in numbers
            ]
        turns = Turns()
        for stage in stages:
            with self._list:
                self._views[stage.number] = view = StageView(self._visit, self._course)
            await view.draw(stage)
            await turns.give()

    async def _draw_before(self) -> None:
        first = min(self._views)
        numbers = [number for number in self._course.numbers if number < first][-PAGE:]
        for place, stage in enumerate(await self._course.stages(numbers)):
            with self._list:
                view = StageView(self._visit, self._course)
            view.element.move(self._list, place)
            await view.draw(stage)
            self._views[stage.number] = view
        self._draw_earlier()

    def _draw_earlier(self) -> None:
        hidden = sum(1 for number in self._course.numbers if number < min(self._views, default=0))
        with self._earlier.clear():
            if hidden:
                action(f"Earlier steps ({hidden})", self._draw_before, kind="plain")

    def _let_go(self) -> None:
        if len(self._views) > MOST_DRAWN + PAGE:
            for number in sorted(self._views)[:-MOST_DRAWN]:
                self._views.pop(number).element.delete()
            self._draw_earlier()


class StageView:
    """A step on the page."""

    def __init__(self, visit: Visit, course: Course) -> None:
        self._visit = visit
        self._course = course
        self._folds: dict[str, CallFold] = {}
        self._left: dict[str, Call] = {}
        self._told = 0
        self._drawn: list[str] = []
        self.element: Element = box("section", "step")
        with self.element:
            self._head = box("div", "row head-line")
            self._said = box("div")
            self._calls = box("div")
            self._more = box("div")

    async def draw(self, stage: Stage) -> None:
        """All of it."""
        self.draw_head(stage)
        turns = Turns()
        for call in stage.calls:
            await self._put(call)
            await turns.give()
        self._draw_more()

    def draw_head(self, stage: Stage) -> None:
        """What the model said, and what that cost."""
        step = stage.step
        with self._head.clear():
            words(f"Step {stage.number}" if stage.number else "Begin", "h3")
            if step is not None:
                words(joined(step.model, tokens(step.usage), price(step.cost)), "span", "quiet small")
                since = span(self._course.asked_at(stage.number), step.created_at)
                words(f"answered after {since}" if since else "", "span", "quiet small")
        if self._drawn == [each.id for each in stage.said]:
            return
        self._drawn = [each.id for each in stage.said]
        with self._said.clear():
            for message in stage.said:
                _draw_said(self._course.run.thread_id, message)

    async def show(self, call: Call) -> None:
        """The call as it is now."""
        await self._put(call)
        self._draw_more()

    async def _put(self, call: Call) -> None:
        fold = self._folds.get(call.id)
        if fold is not None:
            await fold.show(line_of(call, for_service=self._visit.is_service))
            return
        if len(self._folds) >= MOST_CALLS:
            self._left[call.id] = call
            return
        await self._add(call)

    async def _add(self, call: Call) -> None:
        parent = self._folds.get(call.parent_id or "")
        with self._calls if parent is None else parent.nested:
            fold = self._folds[call.id] = CallFold(
                self._visit, line_of(call, for_service=self._visit.is_service)
            )
        await fold.draw_component()

    async def progress(self, call_id: str, payload: JSONObject) -> None:
        """A call has told how far it is."""
        fold = self._folds.get(call_id)
        if fold is not None:
            await fold.progress(payload)

    def _draw_more(self) -> None:
        if len(self._left) == self._told:
            return
        self._told = len(self._left)
        with self._more.clear():
            if self._left:
                action(f"{quantity(len(self._left), 'more call')}", self._show_more, kind="plain")

    async def _show_more(self) -> None:
        for call_id in [*self._left][:MOST_CALLS]:
            await self._add(self._left.pop(call_id))
        self._draw_more()


def _draw_said(thread_id: str, message: Message) -> None:
    with box("div", f"said {message.role}"):
        words("Received" if message.role == "user" else "Answered", "span", "quiet small")
        prose(message.content)
        draw_files(thread_id, message.attachments)


class Turns:
    """Turns of the event loop's other work while much is drawn: often, but not so often that drawing is slow."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give(self) -> None:
        """Others get their turn, if this work had the loop for long enough."""
        if time.perf_counter() - self._since > LONGEST:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
