"""The console for everybody: no serious finding of axe, the keyboard alone, a narrow screen."""

from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.async_api import BrowserContext, Page, expect

from tests.browser.console.rig import House
from tests.browser.console.town import town

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SERIOUS = ("serious", "critical")


async def findings(page: Page) -> list[str]:
    """Axe's serious findings: the rule, and where."""
    await page.evaluate(AXE)
    result: Any = await page.evaluate("axe.run()")  # axe's own
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_has_a_serious_finding_nor_is_wider_than_a_phone(
    context: BrowserContext, scheme: Any
) -> None:
    async with town() as made:
        page = await made.enter(context)
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found: dict[str, list[str]] = {}
        for path in await views(made):
            await page.goto(f"{made.url}{path}")
            await expect(page.locator("main#view h1")).to_be_visible()
            await expect(page.get_by_role("heading", name="Not here")).to_have_count(0)
            if faults := await findings(page):
                found[path] = faults
            await page.set_viewport_size({"width": 390, "height": 780})
            if await page.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
                found.setdefault(path, []).append("wider than a phone")
            await page.set_viewport_size({"width": 1100, "height": 760})
        assert found == {}


async def views(made: House) -> list[str]:
    """The path of each kind of view."""
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
