"""Card of a tool call: drawn by the tool's component, and redrawn only after a change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from nicegui import context
from nicegui.element import Element

from toolwright.core.errors import NotFound
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.state.state import ELICIT
from toolwright.core.text import brief
from toolwright.core.threads.call import Call
from toolwright.core.tools.tool_ui import Component, Drawing, ToolUI
from toolwright.core.value import changed
from toolwright.web.console.tool_ui.asking import draw_approval, draw_choice, draw_confirmation, draw_question
from toolwright.web.console.tool_ui.chart import draw_chart
from toolwright.web.console.tool_ui.parts import (
    CallFacts,
    Draw,
    draw_form,
    facts_of_message,
    facts_of_row,
    facts_of_stream,
    is_open,
)
from toolwright.web.console.tool_ui.showing import (
    ShownProgress,
    draw_answer,
    draw_bar,
    draw_file,
    draw_image,
    draw_json,
    draw_plain,
    draw_progress,
    draw_table,
    read_progress,
)
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, draw_decisions, link, plain_text

SHIPPED: Final[Mapping[Component, Draw]] = {
    "confirmation": draw_confirmation,
    "form": draw_form,
    "choice": draw_choice,
    "chart": draw_chart,
    "table": draw_table,
    "image": draw_image,
    "file": draw_file,
    "progress": draw_progress,
    "json": draw_json,
}
ASKING: Final = frozenset({draw_approval, draw_question, draw_confirmation, draw_choice, draw_form})
"""Components that include the field for the answer. The card adds that field to all others."""
_NAMES: Final[Mapping[Component, Sequence[str]]] = {
    "confirmation": ("confirmaction", "confirm", "askconfirmation", "askyesno"),
    "form": ("showform", "askform", "fillform", "collectinput"),
    "choice": ("chooseoption", "choose", "askchoice", "choice", "selectoption", "pickoption"),
    "chart": ("renderchart", "showchart", "drawchart", "chart", "plotchart"),
    "table": ("rendertable", "showtable", "drawtable", "table"),
    "image": ("renderimage", "showimage", "image"),
    "file": ("showfile", "offerfile", "file"),
    "progress": ("showprogress", "progress"),
    "json": ("showjson", "json"),
}  # in lower case, without word separators
_USUAL: Final[Mapping[str, Component]] = {
    name: component for component, names in _NAMES.items() for name in names
}
log = logging.getLogger("toolwright.web")
PAUSE: Final = 0.25  # seconds between two redraws of a call with streaming arguments or progress reports
FAILED: Final = "The component of the tool %r failed."
MAX_DRAWING: Final = 10.0  # timeout of a user's component in seconds
_STATUS: Final = {
    "streaming": ("being written", "busy"),
    "running": ("in progress", "busy"),
    "requires_action": ("waiting for an answer", "waiting"),
    "complete": ("done", "good"),
    "error": ("failed", "bad"),
}


def component_of(facts: CallFacts, tool_uis: Mapping[str, ToolUI]) -> Draw | Drawing:
    """Return the component that draws the call. An approval precedes the tool's own component."""
    name = facts.call.name
    if facts.terms is not None:
        return draw_approval
    tool_ui = tool_uis.get(name)
    if tool_ui is not None:
        drawing = tool_ui.component
        return drawing if callable(drawing) else SHIPPED[drawing]
    if name == ELICIT:
        return draw_question
    usual = usual_component(name)
    return draw_plain if usual is None else SHIPPED[usual]


def usual_component(name: str) -> Component | None:
    """Return the default component for a tool name, or None."""
    plain = name.lower().replace("_", "").replace("-", "")
    if plain.startswith("confirm"):
        return "confirmation"
    return _USUAL.get(plain)


OURS: Final = frozenset([*SHIPPED.values(), draw_approval, draw_question, draw_plain])
Read = Callable[[], Awaitable[CallFacts]]


class CallCard:
    """A call's card, drawn where it is created. `show_…` updates it. Unchanged parts are not redrawn."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._client = context.client
        self._box = box("div", "call")
        self._facts: CallFacts | None = None
        self._drawn: CallFacts | None = None
        self._read: Read | None = None
        self._drawing = asyncio.Lock()
        self._is_due = False
        self.after_answer: Callable[[], object] = lambda: None
        """Called after an answer on this page, regardless of whether it was accepted."""

    @property
    def facts(self) -> CallFacts | None:
        """The last known state of the call, or None."""
        return self._facts

    async def show_row(self, row: Call) -> None:
        """Show the call from its row, which the visitor may see."""
        self._read = None  # pages that show rows re-read them
        await self.show(await facts_of_row(self._visit, row))

    async def show_message(self, metadata: JSONObject, space_id: str) -> None:
        """Show the call from a message in a space that the visitor may read."""
        self._read = partial(facts_of_message, self._visit, metadata)
        await self.show(await facts_of_message(self._visit, metadata))

    def stream(self, payload: JSONObject) -> None:
        """Show a call whose arguments are still streaming. It is drawn a few times a second."""
        facts = self._facts
        if facts is None or facts.call.status == "streaming":
            self._facts = facts_of_stream(payload)
            self._draw_soon()

    def tell_progress(self, payload: JSONObject) -> None:
        """Update the call's progress from the payload of a `tool.progress` event."""
        facts, done, total = self._facts, payload.get("done"), payload.get("total")
        if facts is None or not isinstance(done, int | float) or facts.call.status in ("complete", "error"):
            return
        text = payload.get("text")
        state = (
            done,
            total if isinstance(total, int | float) else None,
            text if isinstance(text, str) else "",
        )
        self._facts = changed(facts, call=changed(facts.call, progress=state))
        self._draw_soon()

    async def show(self, facts: CallFacts) -> None:
        """Show the current state of the call."""
        before = self._facts
        if before is not None and before.call.progress is not None and facts.call.status == "running":
            facts = changed(facts, call=changed(facts.call, progress=before.call.progress))
        self._facts = facts
        await self._draw()

    def _draw_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._visit.view.run(self._draw_late())

    async def _draw_late(self) -> None:
        if self._drawn is not None:
            await asyncio.sleep(PAUSE)
        self._is_due = False
        await self._draw()

    async def _draw(self) -> None:
        async with self._drawing:
            facts = self._facts
            if facts is None or facts == self._drawn or self._box.is_deleted:
                return
            self._drawn = facts
            self._box.classes(replace=f"call {facts.call.status}")
            self._box.props["data-call"] = facts.call.id
            with self._box.clear():
                _draw_head(facts)
                await self._draw_body(facts)

    async def _draw_body(self, facts: CallFacts) -> None:
        call = facts.call
        component = component_of(facts, self._visit.site.tool_uis)
        if component not in OURS:
            # because it is not a built-in component
            await self._draw_users(facts, cast("Drawing", component))
            return
        ours = cast("Draw", component)  # checked above
        progress = read_progress(call) if call.progress is not None and call.status == "running" else None
        if isinstance(progress, ShownProgress) and ours is not SHIPPED["progress"]:
            draw_bar(progress)
        await ours(self._visit, facts, self.submit)
        if ours not in ASKING and is_open(call):
            self._draw_answer(facts, aside=ours is not draw_plain)

    def _draw_answer(self, facts: CallFacts, *, aside: bool) -> None:
        """Render the answer field. It is folded (`aside`) if the component shows content to read first."""
        if not aside:
            draw_answer(facts.call, self.submit)
            return
        with box("details"):
            plain_text("Answer it", "summary")
            draw_answer(facts.call, self.submit)

    async def _draw_users(self, facts: CallFacts, drawing: Drawing) -> None:
        """Render the call with the user's own component, in a task so that it delays nothing else on the page."""
        with box("div") as place:
            try:
                done = drawing(facts.call, self.submit)
            except Exception as error:  # user code; the page must report that it failed
                log.exception(FAILED, facts.call.name)
                await self._draw_failed(facts, place, error)
                return
        if isinstance(done, Awaitable):
            self._visit.view.run(self._wait_for(facts, place, done))

    async def _wait_for(self, facts: CallFacts, place: Element, done: Awaitable[None]) -> None:
        with place:
            try:
                async with asyncio.timeout(MAX_DRAWING):
                    await done
            except Exception as error:  # as above
                log.exception(FAILED, facts.call.name)
                await self._draw_failed(facts, place, error)

    async def _draw_failed(self, facts: CallFacts, place: Element, error: Exception) -> None:
        if place.is_deleted:
            return
        error_type = brief(type(error).__name__, 100)
        with place.clear():
            plain_text(f"The component of this tool failed ({error_type}). See the log.", "div", "error")
            await draw_plain(self._visit, facts, self.submit)
            if is_open(facts.call):
                self._draw_answer(facts, aside=False)

    async def submit(self, result: JSON = None, *, error: str | None = None) -> bool:
        """Submit the call's result or error. Returns whether it was accepted."""
        facts = self._facts
        if facts is None:
            return False
        with self._client:  # the pressed element can have been removed before there is an answer
            done = await self._visit.act(self._hand_in(facts, result, error), "Answered.")
            if self._read is not None:
                await self._visit.act(self._show_again(self._read))
            self.after_answer()
        return done

    async def _hand_in(self, facts: CallFacts, result: JSON, error: str | None) -> None:
        visit, call = self._visit, facts.call
        if call.run_id is None:
            raise NotFound("Pending tool call not found")
        may = partial(visit.permits.answer, visit.caller)
        outcome = result if error is None else ToolResult.fail(error)
        by = visit.caller.through("console")
        await visit.runtime.calls.submit(call.run_id, call.id, outcome, may, by=by)

    async def _show_again(self, read: Read) -> None:
        await self.show(await read())


def _draw_head(facts: CallFacts) -> None:
    call = facts.call
    with box("div", "row head-of-call"):
        plain_text(brief(call.name, 120), "h3", "name")
        if facts.agent is not None:
            plain_text(f"by {brief(facts.agent, 100)}", "span", "quiet small")
        text, kind = _STATUS[call.status]
        badge("waiting for approval" if facts.terms is not None else text, kind)
        box("span", "fill")
        if facts.shows_run and call.run_id is not None:
            link("Run", f"/runs/{call.run_id}", "small")
    draw_decisions(facts.decisions)
    if facts.late:
        plain_text("The agent has continued, and will still read the answer.", "div", "quiet small")
