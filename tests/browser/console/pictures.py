"""Screenshots of the console for the documents: `python -m tests.browser.console.pictures` writes `docs/images/`."""

import asyncio
import os
from pathlib import Path
from typing import Literal

from playwright.async_api import Page, async_playwright, expect

from tests.browser.chromium import CHROMIUM, FLAGS, found
from tests.browser.console.rig import House
from tests.browser.console.town import town

IMAGES = Path(__file__).parents[3] / "docs" / "images"
SIZE = (1200, 800)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


async def main() -> None:
    """Take all screenshots, light and dark, and one on a phone."""
    IMAGES.mkdir(exist_ok=True)
    async with async_playwright() as playwright, town() as made:
        browser = await playwright.chromium.launch(executable_path=found(CHROMIUM, os.environ), args=FLAGS)
        context = await browser.new_context(
            viewport={"width": SIZE[0], "height": SIZE[1]}, reduced_motion="reduce"
        )
        service = await made.enter(context)
        ada = await made.enter(context, person="ada")
        await ada.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
        for name, path in (await _views(made)).items():
            page = ada if name == "space" else service
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme)
                await _show(page, f"{made.url}{path}")
                await page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
        await ada.emulate_media(color_scheme="light")
        await ada.set_viewport_size({"width": 390, "height": 780})
        await _show(ada, f"{made.url}/spaces/trip")
        await ada.screenshot(path=IMAGES / "space-phone.png")
        await context.close()


async def _views(made: House) -> dict[str, str]:
    runs = {run.agent: run.id for run in await made.rt.runs.list()}
    guide, host = [await made.rt.agents.get(name) for name in ("guide", "host")]
    return {
        "space": "/spaces/trip",
        "pending": "/pending",
        "run": f"/runs/{runs[guide.id]}",
        "agent": f"/agents/{host.id}",
        "tool": "/tools/find_hotels",
    }


async def _show(page: Page, url: str) -> None:
    await page.goto(url)
    await expect(page.locator("main#view h1")).to_be_visible()
    await page.wait_for_load_state("networkidle")
    await page.wait_for_timeout(1_000)  # charts are drawn with an animation


if __name__ == "__main__":
    asyncio.run(main())
