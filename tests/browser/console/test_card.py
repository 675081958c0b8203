"""The card of a call: redrawn when the call has changed, and only then."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nicegui import context as page_context
from nicegui import ui
from playwright.async_api import BrowserContext, Page, expect

import toolwright as tw
from tests.browser.console.asking import asked
from toolwright.core.tools.tool_ui import ToolUI
from toolwright.core.value import changed
from toolwright.web.console.tool_ui.card import CallCard
from toolwright.web.console.tool_ui.parts import CallFacts
from toolwright.web.console.visit import PageView, Visit

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@dataclass
class Stage:
    """A card on a page, placed by a component of the app; `draws` are the arguments that were drawn."""

    name: str
    card: CallCard = field(init=False)
    draws: list[Any] = field(default_factory=list[Any])
    is_set: asyncio.Event = field(default_factory=asyncio.Event)

    def tool_ui(self) -> ToolUI:
        """The component that places the card."""

        def count(call: tw.ShownCall, submit: tw.Submit) -> None:
            self.draws.append(call.args)
            ui.label(f"{call.status} {call.args}")

        def put(call: tw.ShownCall, submit: tw.Submit) -> None:
            if not self.is_set.is_set():
                site = SimpleNamespace(tool_uis={"counted": ToolUI(name="counted", component=count)})
                visit = SimpleNamespace(site=site, view=PageView(page_context.client))
                self.card = CallCard(cast("Visit", visit))  # the part of a visit that a card needs
                self.is_set.set()

        return ToolUI(name="stage", component=put)


async def staged(context: BrowserContext, name: str, play: Callable[[Stage, Page], Awaitable[None]]) -> None:
    stage = Stage(name)
    async with asked(("stage", {}), tool_uis=[stage.tool_ui()]) as opened:
        page = await opened.enter(context, "/pending")
        await stage.is_set.wait()
        await play(stage, page)


def streamed(name: str, **args: Any) -> dict[str, Any]:
    return {"streamId": "call_9", "toolName": name, "partialArgs": args}


async def test_arguments_that_stream_are_drawn_now_and_then_and_at_last_whole(
    context: BrowserContext,
) -> None:
    async def play(stage: Stage, page: Page) -> None:
        for number in range(200):
            stage.card.stream(streamed("counted", n=number))
            await asyncio.sleep(0)
        await expect(page.get_by_text("streaming {'n': 199}")).to_be_visible()
        assert 1 <= len(stage.draws) <= 3

    await staged(context, "counted", play)


async def test_a_chart_grows_while_its_arguments_stream(context: BrowserContext) -> None:
    async def play(stage: Stage, page: Page) -> None:
        stage.card.stream({"streamId": "call_9", "toolName": "renderChart"})
        await expect(page.get_by_text("Loading the chart …")).to_be_visible()
        stage.card.stream(streamed("renderChart", type="bar", labels=["Mon"], data=[3]))
        await expect(page.locator(".chart svg text", has_text="Mon")).to_be_visible()
        stage.card.stream(streamed("renderChart", type="bar", labels=["Mon", "Tue"], data=[3, 4]))
        await expect(page.locator(".chart svg text", has_text="Tue")).to_be_visible()

    await staged(context, "renderChart", play)


async def test_a_call_that_has_not_changed_is_not_drawn_again(context: BrowserContext) -> None:
    call = tw.ShownCall(id="call_9", name="counted", args={"a": 1}, status="requires_action", may_answer=True)

    async def play(stage: Stage, page: Page) -> None:
        for _ in range(3):
            await stage.card.show(CallFacts(call=changed(call, args={"a": 1})))
        assert stage.draws == [{"a": 1}]
        await stage.card.show(CallFacts(call=changed(call, status="complete", may_answer=False)))
        await expect(page.get_by_text("complete {'a': 1}")).to_be_visible()
        stage.card.stream(streamed("counted", a=0))
        await stage.card.show(CallFacts(call=changed(call, status="complete", may_answer=False)))
        assert len(stage.draws) == 2

    await staged(context, "counted", play)


async def test_progress_is_shown_above_a_call_until_it_is_over(context: BrowserContext) -> None:
    call = tw.ShownCall(id="call_9", name="lookUp", args={"a": 1}, status="running")

    async def play(stage: Stage, page: Page) -> None:
        await stage.card.show(CallFacts(call=call))
        stage.card.tell_progress({"done": 3, "total": 8, "text": "Asking hotels"})
        await expect(page.get_by_text("3 of 8")).to_be_visible()
        await expect(page.get_by_role("progressbar", name="Asking hotels")).to_have_attribute(
            "aria-valuenow", "38"
        )
        await stage.card.show(CallFacts(call=changed(call, status="complete", result="Found.")))
        await expect(page.get_by_text("Found.")).to_be_visible()
        await expect(page.get_by_role("progressbar")).to_have_count(0)

    await staged(context, "lookUp", play)
