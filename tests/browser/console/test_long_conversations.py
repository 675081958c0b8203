"""Long conversations in the console: the prompt as sent, the summary of its owner, and pins."""

import pytest
from playwright.async_api import BrowserContext, expect

import toolwright as tw
from tests.browser.console.rig import house
from tests.runtime.test_context_window import Narrow, echo

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

HOSTILE = "<img src=x onerror='window.hurt=1'>"


async def test_a_summary_is_edited_and_removed_a_message_pinned_and_the_prompt_seen(
    context: BrowserContext,
) -> None:
    model = Narrow(echo, limit=2_000, window=2_000)
    app = tw.App(agents=[tw.Agent("talker", tw.Prompt("talker", "You talk.", model=model))])
    async with house(app) as made:
        ada = await made.person("ada")
        thread = await made.rt.threads.create("talker", ada)
        run_id = ""
        for number in range(12):
            run_id = (await made.rt.threads.send(thread.id, f"{HOSTILE} {number} " + "word " * 100)).id
            await made.rt.runs.wait(run_id, 20)
        page = await made.enter(context, f"/threads/{thread.id}", person="ada")
        await page.get_by_text("The model receives a shortened conversation").click()
        await expect(page.get_by_text("SUMMARY of what was said.")).to_be_visible()
        await page.get_by_role("button", name="Edit the summary").click()
        await page.get_by_role("dialog").get_by_role("textbox").fill(f"Tea. {HOSTILE}")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        row = (await made.rt.threads.compactions(thread.id))[-1]
        assert (row.summary, row.edited_by) == (f"Tea. {HOSTILE}", f"person:{ada}")

        await page.get_by_role("button", name="Pin this message").first.click()
        await expect(page.get_by_text("pinned", exact=True)).to_be_visible()
        [pinned] = [each for each in await made.rt.threads.messages(thread.id, 500) if each.pinned]
        assert HOSTILE in pinned.content

        await page.get_by_text("The model receives a shortened conversation").click()
        await page.get_by_role("button", name="Remove the summary").click()
        await page.get_by_role("button", name="Remove", exact=True).click()
        await expect(page.get_by_text("The model receives a shortened conversation")).to_have_count(0)
        assert (await made.rt.threads.compactions(thread.id))[-1].cause == "removed"

        await page.goto(f"{made.url}/runs/{run_id}?tab=prompts")
        await expect(page.get_by_role("heading", name="Step 1")).to_be_visible()
        await expect(page.get_by_text("Left out: messages up to")).to_be_visible()
        await page.get_by_text("messages", exact=False).last.click()
        assert await page.evaluate("window.hurt") is None
        assert await page.get_by_text("You talk.").count() == 0, "the system text is for services"
