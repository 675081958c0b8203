"""People in the console: created and changed by services, with values that are never shown again."""

import pytest
from playwright.async_api import BrowserContext, expect

import toolwright as tw
from tests.browser.console.rig import house

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
HOSTILE = "<img src=x onerror=window.hurt=1>"


async def test_a_person_is_made_renamed_and_deleted(context: BrowserContext) -> None:
    async with house(tw.App(agents=[tw.Agent("clerk", instructions="You help.")])) as made:
        page = await made.enter(context, "/people")
        await expect(page.get_by_text("No people yet")).to_be_visible()
        await page.get_by_role("button", name="New person").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("Ada")
        await page.get_by_role("dialog").get_by_label("External id").fill("ada@example.org")
        await page.get_by_role("button", name="Save").click()
        row = page.locator(".list > .item")
        await expect(row).to_contain_text("ada@example.org")
        await page.get_by_role("button", name="Edit Ada").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("Ada L.")
        await page.get_by_role("button", name="Save").click()
        await expect(row).to_contain_text("Ada L.")
        assert (await made.rt.entities.get_by_external_id("ada@example.org")) is not None
        await page.get_by_role("button", name="Delete Ada L.").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No people yet")).to_be_visible()


async def test_a_value_is_set_for_a_person_and_never_shown_again(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        ada = await made.person("ada")
        page = await made.enter(context, "/people")
        await page.get_by_role("button", name="Values of Ada").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name of the variable").fill("MAIL_TOKEN")
        await dialog.locator("input[type=password]").fill("token-of-ada-77")
        await dialog.get_by_role("button", name="Set").click()
        await expect(dialog.locator(".item")).to_contain_text("MAIL_TOKEN")
        assert await made.rt.entities.env(ada) == {"MAIL_TOKEN": "secret"}
        assert "token-of-ada-77" not in await page.content()
        await expect(dialog.locator("input[type=password]")).to_have_value("")
        await dialog.get_by_role("button", name="Delete MAIL_TOKEN").click()
        await expect(dialog.locator(".item")).to_have_count(0)
        assert await made.rt.entities.env(ada) == {}


async def test_an_invalid_name_of_a_value_is_reported_and_nothing_is_set(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        ada = await made.person("ada")
        page = await made.enter(context, "/people")
        await page.get_by_role("button", name="Values of Ada").click()
        await page.get_by_role("dialog").locator("input[type=password]").fill("token-of-ada-77")
        await page.get_by_role("dialog").get_by_role("button", name="Set").click()
        await expect(page.get_by_role("alert").filter(has_text="a name is printable")).to_be_visible()
        assert await made.rt.entities.env(ada) == {}


async def test_a_hostile_name_runs_nothing(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        person = await made.rt.entities.create(external_id=HOSTILE, display_name=HOSTILE)
        await made.rt.entities.set_env(person.id, {HOSTILE: {"value": "x", "type": "text"}})
        page = await made.enter(context, "/people")
        await page.get_by_role("button", name=f"Values of {HOSTILE}").click()
        await expect(page.get_by_role("dialog").locator(".item")).to_contain_text(HOSTILE)
        await expect(page.locator("#view img")).to_have_count(0)
        assert await page.evaluate("window.hurt") is None
