"""The view of all pending calls and requests."""

import asyncio
import re

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

import toolwright as tw
from tests.browser.console.asking import asked, asking, card
from tests.browser.console.rig import house
from toolwright.core.errors import VariablesRequired
from toolwright.testing import ScriptedModel
from toolwright.web.console.pages.pending import PAGE

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
NOBODY = "Nothing is pending."
SECRET = "s3cret-of-the-tests"


async def press(page: Page, name: str) -> None:
    """Click without waiting, as two people do at the same time."""
    await page.evaluate(
        "name => [...document.querySelectorAll('.call button')].find(b => b.innerText === name)?.click()",
        name,
    )


async def test_of_two_answers_at_once_one_counts_and_both_see_it(
    browser: Browser, context: BrowserContext
) -> None:
    async with (
        asked(("confirmAction", {"question": "Book it?"})) as opened,
        await browser.new_context() as other,
    ):
        ada = await opened.enter(context, "/pending", person="ada")
        bob = await opened.enter(other, "/pending", person="bob")
        for page in (ada, bob):
            await expect(card(page, "confirmAction").get_by_role("button", name="Yes")).to_be_visible()
        await asyncio.gather(press(ada, "Yes"), press(bob, "No"))
        for page in (ada, bob):
            await expect(card(page, "confirmAction").get_by_role("button")).to_have_count(0)
            await expect(card(page, "confirmAction").locator(".badge").first).to_have_text("done")
        [call] = await opened.rt.calls.list(status=["resolved"])
        result = (call.result or {})["result"]
        assert result in ({"confirmed": True}, {"confirmed": False})
        for page in (ada, bob):
            word = "Yes" if result == {"confirmed": True} else "No"
            await expect(card(page, "confirmAction").locator(".badge").last).to_have_text(word)


async def test_what_another_person_answers_is_seen_and_a_form_in_use_is_left_alone(
    context: BrowserContext,
) -> None:
    tools = [
        asking("confirmAction"),
        asking("fillForm", {"type": "object", "properties": {"a": {"type": "string"}}}),
    ]
    async with asked(("confirmAction", {"question": "Book it?"}), ("fillForm", {}), tools=tools) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        await card(page, "fillForm").get_by_label("a").fill("half a sen")
        call = next(each for each in await opened.rt.calls.list() if each.name == "confirmAction")
        await opened.rt.calls.submit(call.run_id, call.id, {"confirmed": False})
        await expect(card(page, "confirmAction").locator(".badge").last).to_have_text("No")
        await expect(card(page, "fillForm").get_by_label("a")).to_have_value("half a sen")
        await expect(card(page, "fillForm").get_by_label("a")).to_be_focused()


async def test_a_call_that_comes_appears_with_who_may_answer_it(context: BrowserContext) -> None:
    tool = asking("confirmAction")
    turns = [
        {
            "when": "Go",
            "calls": [{"name": "enter_space", "args": {"spaceId": "trip"}}, {"name": "confirmAction"}],
        }
    ]
    model = ScriptedModel([*turns, {"text": "That is all."}])
    agent = tw.Agent("guide", instructions="Guide.", model=model, tools=[tool], toolkits=["spaces", "mind"])
    async with house(tw.App(agents=[agent])) as opened:
        ada = await opened.person("ada")
        await opened.rt.spaces.create("Trip to Tokyo", id="trip", members=[ada, agent.id])
        page = await opened.enter(context, "/pending", person="ada")
        await expect(page.get_by_text(NOBODY)).to_be_visible()
        await opened.rt.spaces.say("trip", ada, "Go")
        await expect(card(page, "confirmAction")).to_be_visible()
        await expect(page.get_by_text("answered by anyone in Trip to Tokyo")).to_be_visible()
        await expect(page.get_by_text(NOBODY)).to_have_count(0)


async def test_a_person_sees_a_call_that_waits_for_a_service_and_cannot_answer_it(
    context: BrowserContext,
) -> None:
    @tw.tool(requires_approval=tw.Approval(by="service", expires_in=3_600), visible=True)
    async def refund(order: str) -> str:
        """Pay money back."""
        return "Paid."

    async with asked(("refund", {"order": "A7"}), tools=[refund]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        await expect(page.get_by_text("answered by a service")).to_be_visible()
        await expect(page.get_by_text("Waiting for another person’s answer.")).to_be_visible()
        until = page.locator("time[data-until]")
        await expect(until).to_have_text(re.compile(r"^· Answer until (\d+ \w+, |\w+ \d+, )?\d\d:\d\d$"))
        await expect(card(page, "refund").get_by_role("button")).to_have_count(0)
        await expect(card(page, "refund").get_by_role("link", name="Run")).to_have_count(0)


async def test_an_invisible_call_is_a_services_alone(browser: Browser, context: BrowserContext) -> None:
    tool = tw.Tool.from_config(
        {
            "name": "weigh",
            "description": "Weighs.",
            "inputSchema": {"type": "object"},
            "executionType": "external",
        }
    )
    model = ScriptedModel([{"calls": [{"name": "weigh", "args": {"what": "kettle"}}]}, {"text": "Heavy."}])
    app = tw.App(agents=[tw.Agent("shop", instructions="Sell.", model=model, tools=[tool])])
    async with house(app) as opened, await browser.new_context() as other:
        await opened.person("ada")
        thread = await opened.rt.threads.create("shop")
        run = await opened.rt.threads.send(thread.id, "Go")
        page = await opened.enter(context, "/pending")
        await card(page, "weigh").get_by_label("Result: text, or JSON").fill("2.5")
        ada = await opened.enter(other, "/pending", person="ada")
        await expect(ada.get_by_text(NOBODY)).to_be_visible()
        await card(page, "weigh").get_by_role("button", name="Answer").click()
        await expect(card(page, "weigh").locator(".badge")).to_have_text("done")
        assert (await opened.rt.runs.wait(run.id, 10)).status == "completed"


def needing(*variables: tw.Variable) -> tw.App:
    """Return an agent whose one tool needs these values."""

    @tw.tool(variables=variables)
    async def weather(state: tw.ThreadState) -> str:
        """Look at the weather."""
        return "Sunny."

    model = ScriptedModel([{"calls": [{"name": "weather"}]}, {"text": "Sunny."}])
    return tw.App(agents=[tw.Agent("guide", instructions="Guide.", model=model, tools=[weather])])


async def test_missing_values_of_a_run_are_given_and_never_shown(context: BrowserContext) -> None:
    secret = tw.Variable("API_KEY", "secret", description="The key of the weather.")
    async with house(needing(tw.Variable("CITY"), secret)) as opened:
        thread = await opened.rt.threads.create("guide")
        run = await opened.rt.threads.send(thread.id, "Go")
        page = await opened.enter(context, "/pending")
        await expect(page.get_by_text("guide continues once they are set")).to_be_visible()
        await expect(page.get_by_label("API_KEY")).to_have_attribute("type", "password")
        await page.get_by_label("API_KEY").fill(SECRET)
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("Already set:")).to_be_visible()
        await page.get_by_label("CITY").fill("Tokyo")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text(NOBODY)).to_be_visible()
        assert (await opened.rt.runs.wait(run.id, 10)).status == "completed"
        assert SECRET not in await page.content()


async def test_typed_text_stays_when_another_value_is_given_elsewhere(context: BrowserContext) -> None:
    async with house(needing(tw.Variable("CITY"), tw.Variable("UNIT"))) as opened:
        thread = await opened.rt.threads.create("guide")
        run = await opened.rt.threads.send(thread.id, "Go")
        page = await opened.enter(context, "/pending")
        await page.get_by_label("CITY").fill("Tokyo")
        [request] = await opened.rt.requests.list(thread.id)
        with pytest.raises(VariablesRequired):
            await opened.rt.requests.answer(thread.id, request.id, {"UNIT": "K"})
        await expect(page.get_by_text("Already set:")).to_be_visible()
        await expect(page.get_by_label("UNIT")).to_have_count(0)
        await expect(page.get_by_label("CITY")).to_have_value("Tokyo")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text(NOBODY)).to_be_visible()
        assert (await opened.rt.runs.wait(run.id, 10)).status == "completed"


async def test_a_service_looks_at_the_calls_of_one_space(context: BrowserContext) -> None:
    async with asked(("confirmAction", {"question": "Book it?"})) as opened:
        await opened.rt.spaces.create("Elsewhere", id="else", kind="public")
        page = await opened.enter(context, "/pending")
        await expect(card(page, "confirmAction")).to_be_visible()
        await page.get_by_role("combobox", name="Space").click()
        await page.get_by_role("option", name="Elsewhere").click()
        await expect(page.get_by_text(NOBODY)).to_be_visible()
        await expect(page).to_have_url(f"{opened.url}/pending?space=else")


async def test_an_invisible_call_that_a_worker_answers_is_seen_to_be_over(context: BrowserContext) -> None:
    tool = tw.Tool.from_config(
        {
            "name": "weigh",
            "description": "Weighs.",
            "inputSchema": {"type": "object"},
            "executionType": "external",
        }
    )
    model = ScriptedModel([{"calls": [{"name": "weigh"}]}, {"text": "Heavy."}])
    async with house(
        tw.App(agents=[tw.Agent("shop", instructions="Sell.", model=model, tools=[tool])])
    ) as opened:
        thread = await opened.rt.threads.create("shop")
        run = await opened.rt.threads.send(thread.id, "Go")
        page = await opened.enter(context, "/pending")
        await expect(card(page, "weigh").get_by_role("button", name="Answer")).to_be_visible()
        [call] = await opened.rt.calls.list()
        await opened.rt.calls.submit(run.id, call.id, 2.5)
        await expect(card(page, "weigh").locator(".outcome")).to_have_text("Result2.5")
        await expect(card(page, "weigh").get_by_role("button")).to_have_count(0)


async def test_a_long_list_has_pages(context: BrowserContext) -> None:
    made = [("confirmAction", {"question": f"Question {number}?"}) for number in range(PAGE + 3)]
    async with asked(*made) as opened:
        page = await opened.enter(context, "/pending")
        await expect(page.locator(".call")).to_have_count(PAGE)
        await page.get_by_role("link", name="Next page").click()
        await expect(page.locator(".call")).to_have_count(3)
        await expect(page.get_by_text(f"Question {PAGE + 2}?")).to_be_visible()
        await page.get_by_role("link", name="First page").click()
        await expect(page.get_by_text("Question 0?")).to_be_visible()
