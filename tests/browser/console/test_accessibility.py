"""Accessibility of the console: no serious finding of axe, keyboard alone, narrow screen."""

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.async_api import BrowserContext, Page, expect
from playwright.async_api import TimeoutError as PlaywrightTimeout

from tests.browser.console.rig import KEY, House
from tests.browser.console.town import town

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SERIOUS = ("serious", "critical")
PARTS = 4
"""The views are checked in that number of parts, in parallel."""


async def findings(page: Page) -> list[str]:
    """Return axe's serious findings: the rule and the element."""
    await page.evaluate(AXE)
    result: Any = await page.evaluate("axe.run()")  # axe's own result type
    assert result["passes"]
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
        for each in result["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


async def test_the_sign_in_has_no_serious_finding(context: BrowserContext) -> None:
    async with town() as made:
        for scheme in ("light", "dark"):
            page = await context.new_page()
            await page.emulate_media(color_scheme=scheme)
            await page.goto(made.url)
            await expect(page.get_by_label("Secret key")).to_be_visible()
            assert await findings(page) == []


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_a_serious_finding_nor_is_wider_than_a_phone(
    context: BrowserContext, scheme: Any, part: int
) -> None:
    async with town() as made:
        page = await made.enter(context)
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found: dict[str, list[str]] = {}
        for path in (await views(made))[part::PARTS]:
            await page.goto(f"{made.url}{path}")
            await expect(page.locator("main#view h1")).to_be_visible()
            await expect(page.get_by_role("heading", name="Not found")).to_have_count(0)
            if faults := await findings(page):
                found[path] = faults
            await page.set_viewport_size({"width": 390, "height": 780})
            if not await fits(page):
                found.setdefault(path, []).append("wider than a phone")
            await page.set_viewport_size({"width": 1100, "height": 760})
        assert found == {}


async def fits(page: Page) -> bool:
    """Return whether the page is no wider than its window, after its charts have been redrawn."""
    try:
        await page.wait_for_function("document.scrollingElement.scrollWidth <= innerWidth")
    except PlaywrightTimeout:
        return False
    return True


async def test_the_keyboard_alone_signs_in_and_answers(context: BrowserContext) -> None:
    async with town() as made:
        page = await context.new_page()
        await page.goto(made.url)
        await expect(page.get_by_label("Secret key")).to_be_focused()
        await page.keyboard.type(KEY)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Spaces")).to_be_visible()
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="To the view")).to_be_focused()
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_contain_text("Leave the field")
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.keyboard.press("g")
        await page.keyboard.press("p")
        await expect(page.get_by_role("heading", name="Pending")).to_be_visible()
        await page.get_by_role("button", name="Yes", exact=True).focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(".call.complete")).to_be_visible()
        [call] = [each for each in await made.rt.calls.list(status=None) if each.name == "confirmAction"]
        assert call.status == "resolved"


async def test_the_keyboard_alone_opens_a_space_and_talks(context: BrowserContext) -> None:
    async with town() as made:
        ada = await made.enter(context, "/", person="ada")
        await ada.get_by_role("link", name="Trip to Tokyo").focus()
        await ada.keyboard.press("Enter")
        await expect(ada.get_by_role("heading", name="Trip to Tokyo")).to_be_visible()
        await ada.keyboard.press("/")
        await ada.keyboard.type("One line")
        await ada.keyboard.press("Shift+Enter")
        await ada.keyboard.type("and another")
        await ada.keyboard.press("Enter")
        said = ada.locator("article.message", has_text="One line")
        await expect(said.locator(".prose")).to_have_text("One line\nand another")


async def views(made: House) -> list[str]:
    """Return one path for each kind of view."""
    host = await made.rt.agents.get("host")
    runs = [f"/runs/{run.id}" for run in await made.rt.runs.list()]
    threads = [f"/threads/{thread.id}" for thread in await made.rt.threads.list() if thread.parent_id is None]
    tabs = [f"{threads[-1]}?tab={tab}" for tab in ("family", "files", "values", "prompt")]
    agents = [
        f"/agents/{host.id}?tab={tab}"
        for tab in ("configuration", "prompt", "memory", "mind", "plans", "inbox")
    ]
    tools = ["/tools", "/tools/find_hotels", f"/tools/{host.id}/confirmAction"]
    lists = ["/", "/pending", "/runs", "/threads", "/agents", "/people"]
    return [*lists, "/spaces/trip", *runs, *threads, *tabs, *agents, *tools]
