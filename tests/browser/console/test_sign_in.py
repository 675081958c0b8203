"""Who comes into the console, and who does not."""

import pytest
from playwright.async_api import BrowserContext, expect

import toolwright as tw
from tests.browser.console.rig import house

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_a_secret_key_signs_in_and_the_page_that_was_asked_for_is_shown(
    context: BrowserContext,
) -> None:
    async with house(tw.App()) as made:
        await made.rt.spaces.create("Trip to Tokyo", id="trip", kind="public")
        page = await made.enter(context, "/spaces/trip")
        await expect(page.get_by_role("heading", name="Trip to Tokyo")).to_be_visible()


async def test_without_keys_everybody_on_this_machine_is_let_in(context: BrowserContext) -> None:
    async with house(tw.App(), keyed=False) as made:
        page = await context.new_page()
        await page.goto(made.url)
        await expect(page.get_by_role("heading", name="Spaces")).to_be_visible()
        await expect(page.get_by_role("button", name="Sign out")).to_have_count(0)
