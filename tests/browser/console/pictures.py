"""Screenshots of the console for the documents: `python -m tests.browser.console.pictures` writes `docs/images/`."""

import asyncio
import os
from pathlib import Path

from playwright.async_api import BrowserContext, Page, async_playwright, expect

import toolwright as tw
from tests.browser.chromium import CHROMIUM, FLAGS, found
from tests.browser.console.rig import house
from tests.browser.console.town import town
from tests.kit import send_to
from toolwright import testing

IMAGES = Path(__file__).parents[3] / "docs" / "images"


@tw.tool(requires_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay someone, in euros."""
    return f"paid {amount} to {to}"


async def main() -> None:
    """Take the screenshots that README and the guide to the console show."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found(CHROMIUM, os.environ), args=FLAGS)
        context = await browser.new_context(viewport={"width": 1200, "height": 800}, reduced_motion="reduce")
        await town_pictures(context)
        await context.close()
        context = await browser.new_context(viewport={"width": 1000, "height": 360}, reduced_motion="reduce")
        await approval_picture(context)
        await context.close()


async def town_pictures(context: BrowserContext) -> None:
    """Take pictures of a space, as a person sees it, and of a run."""
    async with town() as made:
        service = await made.enter(context)
        ada = await made.enter(context, person="ada")
        await _take(ada, f"{made.url}/spaces/trip", "space-light")
        runs = {run.agent: run.id for run in await made.rt.runs.list()}
        guide = await made.rt.agents.get("guide")
        await service.emulate_media(color_scheme="dark")
        await _take(service, f"{made.url}/runs/{runs[guide.id]}", "run-dark")


async def approval_picture(context: BrowserContext) -> None:
    """Take a picture of README's payment while it waits."""
    model = testing.ScriptedModel([{"calls": [{"name": "pay", "args": {"to": "Ann", "amount": 5}}]}])
    async with house(tw.App(agents=[tw.Agent("clerk", model=model, tools=[pay])])) as made:
        run = await send_to(made.rt, "clerk", "Pay Ann 5 euros.")
        await made.rt.runs.wait_for_input(run.id)
        await _take(await made.enter(context), f"{made.url}/pending", "approval-light")


async def _take(page: Page, url: str, name: str) -> None:
    await page.goto(url)
    await expect(page.locator("main#view h1")).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(1_000)  # charts are drawn with an animation
    await page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    asyncio.run(main())
