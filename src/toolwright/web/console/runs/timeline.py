"""Timeline of a run: steps, messages and calls, folded until opened."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from nicegui.element import Element
from nicegui.events import GenericEventArguments

from toolwright.core.json_value import JSONObject
from toolwright.core.limits import PageLimit, ended_early
from toolwright.core.text import brief, quantity
from toolwright.core.threads.call import OPEN, Call
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Step
from toolwright.core.value import changed
from toolwright.web.console.browsing import draw_reasoning
from toolwright.web.console.runs.calls import CallLine, draw_call, draw_files, gist, line_of, with_progress
from toolwright.web.console.runs.facts import KINDS, joined, price, span, tokens
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import MAX_SHOWN, action, badge, box, plain_text, prose

READ: Final = 200  # calls or messages read at once
_OPENED: Final = "(event) => emit(event.target.open)"
PAGE: Final = 20  # steps drawn at once
MAX_CALLS: Final = 50  # calls per step drawn at once
MAX_BURST: Final = 0.02  # seconds of drawing after which other tasks get a turn
MAX_DRAWN: Final = 60  # maximum number of steps on a live page; the earliest are removed


@dataclass(slots=True, kw_only=True)
class Stage:
    """A step on the timeline. Number 0 contains the messages that started the run."""

    number: int
    step: Step | None = None
    messages: list[Message] = field(default_factory=list[Message])
    calls: list[Call] = field(default_factory=list[Call])


class RunDetail:
    """A run's steps, messages and calls. Keeps only the status of each call: results can be large."""

    def __init__(self, visit: Visit, run: Run) -> None:
        self._visit = visit
        self.run = run
        self._steps: dict[int, Step] = {}
        self._messages_by_step: dict[int, list[Message]] = {}
        self._ends: dict[int, datetime] = {}  # time of the last message of each step
        self._places: list[int] = []  # the step of each call, in order of creation

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the existing steps."""
        return sorted({*self._steps, *self._messages_by_step, *self._places})

    async def read(self) -> None:
        """Read everything except the calls' contents."""
        steps = await self._visit.runtime.runs.steps(self.run.id)
        self._steps = {each.number: each for each in steps}
        self._messages_by_step.clear()
        place, ended = 0, False
        while not ended:
            page = await self._messages(place)
            for message in page:
                self._add_message(message)
            place += len(page)
            ended = _is_last(page)
        self._places.clear()
        await self.new_calls()

    async def stages(self, numbers: Sequence[int]) -> Sequence[Stage]:
        """Return the given steps with their calls."""
        steps = {*numbers}
        calls: dict[int, list[Call]] = {}
        places = [place for place, step in enumerate(self._places) if step in steps]
        first, last = (places[0], places[-1] + 1) if places else (0, 0)
        while first < last:
            page = await self._calls(min(READ, last - first), first)
            for call in page:
                if call.step in steps:
                    calls.setdefault(call.step, []).append(call)
            first += len(page) if ended_early(page) else READ
        return [self.stage(number, calls.get(number, [])) for number in numbers]

    def stage(self, number: int, calls: Sequence[Call] = ()) -> Stage:
        """Return a step with the given calls."""
        messages = self._messages_by_step.get(number, [])
        return Stage(number=number, step=self._steps.get(number), messages=[*messages], calls=[*calls])

    async def new_calls(self) -> Sequence[Call]:
        """Return the calls created since the last read, at most the newest ones."""
        new: Sequence[Call] = []
        while True:
            page = await self._calls(READ, len(self._places))
            self._places.extend([call.step for call in page])
            is_last = _is_last(page)
            new = [*new, *page] if is_last else page
            if is_last:
                return new

    def requested_at(self, number: int) -> datetime | None:
        """Return when the model was called for this step: at the run's start, or after the previous steps ended."""
        ends = [end for step, end in self._ends.items() if step < number]
        return max([*ends, *filter(None, [self.run.started_at])], default=None)

    async def refresh(self) -> Sequence[int]:
        """Read new messages and calls. Returns the numbers of the steps that can have changed."""
        before = {*self.numbers}
        drawn = {message.id for each in self._messages_by_step.values() for message in each}
        changed_steps = {max(before, default=0)}
        steps = await self._visit.runtime.runs.steps(self.run.id)
        self._steps = {each.number: each for each in steps}
        last = await self._visit.runtime.threads.messages_before(self.run.thread_id, None, PageLimit(50))
        for message in last:
            if message.run_id == self.run.id and message.id not in drawn:
                self._add_message(message)
                changed_steps.add(message.step)
        return sorted(changed_steps | ({*self.numbers} - before))

    async def _messages(self, offset: int) -> Sequence[Message]:
        return await self._visit.runtime.threads.messages(
            self.run.thread_id, PageLimit(READ), offset, run_id=self.run.id
        )

    async def _calls(self, limit: int, offset: int) -> Sequence[Call]:
        return await self._visit.runtime.calls.list(
            status=None,
            run_id=self.run.id,
            sees=self._visit.caller.sight,
            limit=PageLimit(limit),
            offset=offset,
        )

    def _add_message(self, message: Message) -> None:
        """Add a message. Results and messages of prompt tools are shown in their calls."""
        self._ends[message.step] = max(message.created_at, self._ends.get(message.step, message.created_at))
        if message.role != "tool" and message.within is None and _has_content(message):
            short = changed(message, content=brief(message.content, MAX_SHOWN), native=None)
            self._messages_by_step.setdefault(message.step, []).append(short)


def _has_content(message: Message) -> bool:
    return bool(message.content or message.attachments or message.reasoning)


def _is_last(page: Sequence[object]) -> bool:
    """Return whether the page is the last one."""
    return len(page) < READ and not ended_early(page)


class CallFold:
    """The line of a call. Its contents are drawn when it is opened."""

    def __init__(self, visit: Visit, line: CallLine) -> None:
        self._visit = visit
        self.line = line
        self._open = False
        self._card: CallCard | None = None
        self._nested: Element | None = None
        self._element = box("div")
        with self._element:
            self._details = box("details", f"call fold {line.call.status}")
            self._details.props["data-call"] = line.call.id
            self._details.on("toggle", self._toggle, js_handler=_OPENED)
            with self._details:
                self._summary = box("summary", "row")
                self._body = box("div", "inside")
        self._draw_summary()

    @property
    def nested(self) -> Element:
        """The element for the child calls of this one."""
        if self._nested is None:
            with self._element:
                self._nested = box("div", "nested")
        return self._nested

    @property
    def is_deleted(self) -> bool:
        """Return whether the element was removed from the page."""
        return self._element.is_deleted

    async def show(self, line: CallLine) -> None:
        """Redraw the call if it has changed."""
        if line != self.line:
            self._details.classes(remove=self.line.call.status, add=line.call.status)
            self.line = line
            self._draw_summary()
            if self._open:
                await self._draw_body()
        await self.draw_component()

    async def draw_component(self) -> None:
        """Render the call with its tool's component if it is visible or waits for an answer."""
        row = self.line.row
        if row is None or (self._card is None and not _is_shown(row, self._visit)):
            return
        if self._card is None:
            with self._element:
                self._card = CallCard(self._visit)
        await self._card.show_row(row)

    async def progress(self, payload: JSONObject) -> None:
        """Show the call's reported progress."""
        if self._card is not None:
            self._card.tell_progress(payload)
        if self.line.call.status == "running":
            await self.show(with_progress(self.line, payload))

    async def _toggle(self, event: GenericEventArguments) -> None:
        self._open = event.args is True
        if self._open:
            await self._draw_body()

    async def _draw_body(self) -> None:
        with self._body.clear():
            await draw_call(self._visit, self.line)

    def _draw_summary(self) -> None:
        call = self.line.call
        with self._summary.clear():
            plain_text(brief(call.name, 100), "span", "mono title")
            badge(self.line.status, KINDS.get(self.line.status, ""))
            if self.line.facts:
                plain_text(self.line.facts, "span", "quiet small")
            if call.progress is not None and call.status == "running":
                _draw_progress(*call.progress)
            plain_text(call.error or gist(call.args), "span", "gist bad" if call.error else "gist")


def _is_shown(row: Call, visit: Visit) -> bool:
    """Return whether a call has more than its line, that is, is visible, has a component or waits for an answer."""
    waits = row.status in OPEN and (row.awaits_approval or not row.ends_with_run)
    return waits or row.visible or row.name in visit.site.tool_uis


def _draw_progress(done: float, total: float | None, text: str) -> None:
    with box("span", "row small"):
        if total:
            bar = box("progress")
            bar.props["max"], bar.props["value"] = total, min(done, total)
            bar.props["aria-label"] = "Progress"
        plain_text(joined(brief(text, 120), f"{done:g} of {total:g}" if total else f"{done:g}"))


class Timeline:
    """The steps on the page."""

    def __init__(self, visit: Visit, course: RunDetail) -> None:
        self._visit = visit
        self._course = course
        self._earlier = box("div", "row earlier")
        self._list = box("div", "timeline")
        self._views: dict[int, StageView] = {}

    async def draw(self) -> None:
        """Render the newest page."""
        self._views.clear()
        self._list.clear()
        await self._add(self._course.numbers[-PAGE:])
        self._draw_earlier()

    async def refresh(self) -> None:
        """Render new steps, and new calls of existing steps."""
        numbers = await self._course.refresh()
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
        """Show changed or new calls."""
        for call in calls:
            view = self._views.get(call.step)
            if view is not None:
                await view.show(call)

    async def progress(self, call_id: str, payload: JSONObject) -> None:
        """Show a call's reported progress."""
        for view in self._views.values():
            await view.progress(call_id, payload)

    async def _add(self, numbers: Sequence[int], calls: Sequence[Call] | None = None) -> None:
        """Append steps with the given calls, or with the calls of the journal if none are given."""
        if calls is None:
            stages = await self._course.stages(numbers)
        else:
            stages = [
                self._course.stage(each, [call for call in calls if call.step == each]) for each in numbers
            ]
        turns = DrawingPauses()
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
        if len(self._views) > MAX_DRAWN + PAGE:
            for number in sorted(self._views)[:-MAX_DRAWN]:
                self._views.pop(number).element.delete()
            self._draw_earlier()


class StageView:
    """A step on the page."""

    def __init__(self, visit: Visit, course: RunDetail) -> None:
        self._visit = visit
        self._course = course
        self._folds: dict[str, CallFold] = {}
        self._remaining: dict[str, Call] = {}
        self._drawn_remaining = 0
        self._drawn: list[str] = []
        self.element: Element = box("section", "step")
        with self.element:
            self._head = box("div", "row head-line")
            self._message_box = box("div")
            self._calls = box("div")
            self._more = box("div")

    async def draw(self, stage: Stage) -> None:
        """Render the whole step."""
        self.draw_head(stage)
        turns = DrawingPauses()
        for call in stage.calls:
            await self._put(call)
            await turns.give()
        self._draw_more()

    def draw_head(self, stage: Stage) -> None:
        """Render the model's answer and its cost."""
        step = stage.step
        with self._head.clear():
            plain_text(f"Step {stage.number}" if stage.number else "Begin", "h3")
            if step is not None:
                plain_text(joined(step.model, tokens(step.usage), price(step.cost)), "span", "quiet small")
                since = span(self._course.requested_at(stage.number), step.created_at)
                plain_text(f"answered after {since}" if since else "", "span", "quiet small")
        if self._drawn == [each.id for each in stage.messages]:
            return
        self._drawn = [each.id for each in stage.messages]
        with self._message_box.clear():
            for message in stage.messages:
                _draw_message(self._visit, self._course.run.thread_id, message)

    async def show(self, call: Call) -> None:
        """Render the current state of the call."""
        await self._put(call)
        self._draw_more()

    async def _put(self, call: Call) -> None:
        fold = self._folds.get(call.id)
        if fold is not None:
            await fold.show(line_of(call, for_service=self._visit.is_service))
            return
        if len(self._folds) >= MAX_CALLS:
            self._remaining[call.id] = call
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
        """Show a call's reported progress."""
        fold = self._folds.get(call_id)
        if fold is not None:
            await fold.progress(payload)

    def _draw_more(self) -> None:
        if len(self._remaining) == self._drawn_remaining:
            return
        self._drawn_remaining = len(self._remaining)
        with self._more.clear():
            if self._remaining:
                action(f"{quantity(len(self._remaining), 'more call')}", self._show_more, kind="plain")

    async def _show_more(self) -> None:
        for call_id in [*self._remaining][:MAX_CALLS]:
            await self._add(self._remaining.pop(call_id))
        self._draw_more()


def _draw_message(visit: Visit, thread_id: str, message: Message) -> None:
    with box("div", f"said {message.role}"):
        plain_text("Received" if message.role == "user" else "Answered", "span", "quiet small")
        draw_reasoning(visit, message)
        prose(message.content)
        draw_files(thread_id, message.attachments)


class DrawingPauses:
    """Lets other tasks run during long drawing, often enough for them and rarely enough to draw quickly."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def give(self) -> None:
        """Yield to other tasks if this work has used the event loop long enough."""
        if time.perf_counter() - self._since > MAX_BURST:
            await asyncio.sleep(0)
            self._since = time.perf_counter()
