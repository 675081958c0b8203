"""Lost connections: to the server, and from the server to its journal."""

import pytest
from playwright.async_api import BrowserContext, expect

import toolwright as tw
from tests.browser.console.rig import KEY, House
from tests.client.rig import served
from toolwright import testing
from toolwright.testing import ManualClock
from toolwright.web.console.console import Console

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_a_page_whose_server_is_gone_says_so_and_goes_on_when_it_is_back(
    context: BrowserContext,
) -> None:
    clock = ManualClock()
    async with testing.runtime(tw.App()) as rt:
        space = await rt.spaces.create("Trip to Tokyo", id="trip", kind="public")
        bob = (await rt.entities.create(external_id="bob", display_name="Bob")).id
        async with served(rt, clock=clock, secret_keys=(KEY,), console=Console) as port:
            made = House(rt, port, clock)
            page = await made.enter(context, "/spaces/trip")
            await expect(page.get_by_text("No messages yet.")).to_be_visible()
        await expect(page.locator("#popup")).to_contain_text("Connection lost")
        await expect(page.locator("#popup")).to_be_visible()
        await rt.spaces.say(space.id, bob, "You were away.")
        async with served(rt, port, clock=clock, secret_keys=(KEY,), console=Console):
            # still signed in, if there is a sign-in
            await expect(page.get_by_text("You were away.")).to_be_visible()
            await expect(page.locator("#popup")).to_be_hidden()
            await rt.spaces.say(space.id, bob, "Now live again.")
            await expect(page.get_by_text("Now live again.")).to_be_visible()
