"""A space in the console: the messages of people and agents, and the actions on them."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from nicegui import ui
from playwright.async_api import BrowserContext, Locator, Page, expect

import toolwright as tw
from tests.browser.console.asking import asked, card
from tests.browser.console.rig import HeldModel, House, house
from tests.browser.console.town import CONFIRM
from toolwright.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
WISH = "Please find us a hotel in Tokyo."
HOSTILE = (
    '<img src=x onerror="alert(1)"> {{7*7}} <script>alert(2)</script> javascript:alert(3) &amp; `${alert(4)}`'
)


def spoken(text: str) -> list[dict[str, Any]]:
    """Return script turns: enter the space, then post that text."""
    enter = {"name": "enter_space", "args": {"spaceId": "trip"}}
    return [{"calls": [enter]}, {"calls": [{"name": "send_message", "args": {"text": text}}]}]


@asynccontextmanager
async def trip(
    *turns: dict[str, Any], model: ScriptedModel | None = None, tools: Sequence[tw.Tool] = ()
) -> AsyncGenerator[House]:
    """Serve a space of Ada, Bob and an agent that answers with those turns."""
    model = model or ScriptedModel([*turns, {"text": "Nothing more to do."}])
    agent = tw.Agent(
        "host", tw.Prompt("host", "You book hotels.", model=model, tools=[*tools]), toolkits=["spaces"]
    )
    async with house(tw.App(agents=[agent])) as made:
        people = [await made.person(name) for name in ("ada", "bob")]
        await made.rt.spaces.create("Trip to Tokyo", id="trip", members=[*people, agent.id])
        yield made


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def said(page: Page, text: str) -> Locator:
    return page.locator("article.message", has_text=text)


async def test_people_talk_and_see_each_other_come_write_and_react(context: BrowserContext) -> None:
    async with trip() as made:
        ada = await made.enter(context, "/spaces/trip", person="ada")
        bob = await made.enter(context, "/spaces/trip", person="bob")
        await expect(ada.locator(".guest.here", has_text="Bob")).to_be_visible()
        await bob.get_by_label("Message", exact=True).press_sequentially("Mor")
        await expect(ada.get_by_text("Bob is typing …")).to_be_visible()
        await expect(ada.get_by_text("Bob is typing …")).to_have_count(0)  # he has paused
        await bob.get_by_label("Message", exact=True).press_sequentially("n")
        await expect(ada.get_by_text("Bob is typing …")).to_be_visible()
        await say(bob, "Morning!\nHow are you?")
        await expect(said(ada, "Morning!").locator(".who")).to_have_text("Bob")
        await expect(ada.get_by_text("Bob is typing …")).to_have_count(0)
        await said(ada, "Morning!").hover()
        await said(ada, "Morning!").get_by_label("React", exact=True).click()
        await said(ada, "Morning!").get_by_label("React with 🎉").click()
        await expect(said(bob, "Morning!").locator(".reactions .reaction")).to_have_text("🎉 1")
        await said(ada, "Morning!").hover()
        await said(ada, "Morning!").get_by_label("Reply").click()
        await say(ada, "Well, thanks.")
        await expect(said(bob, "Well, thanks.").locator(".parent")).to_contain_text(
            "Bob: Morning! How are you?"
        )
        await bob.close()
        await expect(ada.locator(".guest.here", has_text="Bob")).to_have_count(0)


async def test_what_an_agent_says_is_seen_while_it_is_written_and_leads_to_its_run(
    context: BrowserContext,
) -> None:
    text = "It is clear in Tokyo, and the Sakura has a room."
    model = HeldModel([*spoken(text), {"text": "Nothing more to do."}])
    async with trip(model=model) as made:
        ada = await made.enter(context, "/spaces/trip", person="ada")
        await say(ada, WISH)
        await expect(ada.locator("article.streaming .prose")).to_have_text("It is clear in Tokyo")
        await expect(ada.get_by_text("host is working …")).to_be_visible()
        await ada.reload()
        await expect(said(ada, WISH)).to_be_visible()
        model.release.set()
        await expect(said(ada, text)).to_be_visible()
        await expect(ada.locator("article.streaming")).to_have_count(0)
        await expect(said(ada, text)).to_have_count(1)
        await expect(said(ada, text).locator(".badge")).to_have_text("agent")
        await expect(ada.get_by_text("host is working …")).to_have_count(0)


async def test_a_call_is_drawn_while_its_arguments_are_written_and_answered_by_a_member(
    context: BrowserContext,
) -> None:
    enter, ask = (
        {"name": "enter_space", "args": {"spaceId": "trip"}},
        {"name": "confirmAction", "args": {"question": "Book one night at the Sakura for 120 EUR?"}},
    )
    model = HeldModel([{"calls": [enter]}, {"calls": [ask]}, {"text": "I have asked."}])
    async with trip(model=model, tools=[tw.Tool.from_config(CONFIRM)]) as made:
        ada = await made.enter(context, "/spaces/trip", person="ada")
        await say(ada, WISH)
        await expect(ada.locator(".call.streaming")).to_contain_text("Book one night")
        await expect(ada.get_by_role("button", name="Yes")).to_have_count(0)
        model.release.set()
        await expect(ada.locator(".call.requires_action")).to_contain_text(
            "Book one night at the Sakura for 120 EUR?"
        )
        await expect(ada.locator("article.message .call")).to_have_count(1)
        await ada.get_by_role("button", name="Yes").click()
        await expect(ada.locator(".call.complete")).to_be_visible()
        [call] = await made.rt.calls.list(status=["resolved"], space_id="trip")
        assert call.result is not None
        assert call.result["result"] == {"confirmed": True}


async def test_a_message_is_edited_and_deleted_by_its_author_alone(context: BrowserContext) -> None:
    async with trip() as made:
        ada = await made.enter(context, "/spaces/trip", person="ada")
        bob = await made.enter(context, "/spaces/trip", person="bob")
        await say(ada, "Wednesday")
        await said(bob, "Wednesday").hover()
        await expect(said(bob, "Wednesday").get_by_label("Reply")).to_be_visible()
        await expect(said(bob, "Wednesday").get_by_label("Edit")).to_have_count(0)
        await said(ada, "Wednesday").hover()
        await said(ada, "Wednesday").get_by_label("Edit").click()
        await expect(ada.get_by_label("Message", exact=True)).to_have_value("Wednesday")
        await say(ada, "Thursday")
        await expect(said(bob, "Thursday")).to_contain_text("edited")
        await expect(said(bob, "Wednesday")).to_have_count(0)
        await said(ada, "Thursday").hover()
        await said(ada, "Thursday").get_by_label("Delete").click()
        await ada.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(said(bob, "Thursday")).to_have_count(0)


async def test_a_space_of_ten_thousand_messages_is_read_page_by_page(context: BrowserContext) -> None:
    async with trip() as made:
        ada = made.people["ada"]
        space = await made.rt.spaces.create("Long", id="long", members=[ada])
        for number in range(320):
            await made.rt.spaces.say(space.id, ada, f"message {number}.")
        page = await made.enter(context, "/spaces/long", person="ada")
        await expect(said(page, "message 319.")).to_be_in_viewport()
        assert await page.locator("article.message").count() == 50
        for drawn in (100, 150, 200, 200):
            await page.get_by_role("button", name="Earlier messages").click()
            await expect(page.locator("article.message")).to_have_count(drawn)
            await expect(page.get_by_role("button", name="Earlier messages")).to_be_enabled()
        await expect(said(page, "message 70.")).to_be_visible()
        await expect(said(page, "message 319.")).to_have_count(0)
        await page.get_by_role("button", name="Newest messages").click()
        await expect(said(page, "message 319.")).to_be_in_viewport()


async def test_what_happens_while_earlier_messages_are_read_stands_once_and_in_its_place(
    context: BrowserContext,
) -> None:
    async with trip() as made:
        ada = made.people["ada"]
        await made.rt.spaces.create("Long", id="long", members=[ada])
        for number in range(99):
            await made.rt.spaces.say("long", ada, f"message {number}.")
        last = await made.rt.spaces.say("long", ada, "message 99.")
        page = await made.enter(context, "/spaces/long", person="ada")
        await expect(said(page, "message 99.")).to_be_in_viewport()

        async def change() -> None:
            number = 0
            while await page.locator("article.message").count() < 100:
                await made.rt.spaces.edit(last.message.id, f"message 99. {number}")
                number += 1
            await made.rt.spaces.edit(last.message.id, "message 99. At last")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(change())
            tasks.create_task(page.get_by_role("button", name="Earlier messages").click())
        await expect(said(page, "At last")).to_have_count(1)
        await expect(page.locator("article.message .prose")).to_have_text(
            [re.compile(rf"^message {number}\.") for number in range(100)]
        )


async def test_a_component_that_waits_keeps_no_message_waiting(context: BrowserContext) -> None:
    ready = asyncio.Event()
    ended: list[bool] = []

    @tw.tool_ui("pickSeat")
    async def draw(call: tw.ShownCall, submit: tw.Submit) -> None:
        try:
            await ready.wait()
            ui.label("Seats 11 to 13")
        finally:
            ended.append(ready.is_set())

    async with asked(("pickSeat", {"row": 3}), tool_uis=[draw]) as made:
        page = await made.enter(context, "/spaces/trip", person="ada")
        await expect(card(page, "pickSeat")).to_be_visible()
        await made.rt.spaces.say("trip", made.people["bob"], "Is anybody here?")
        await expect(said(page, "Is anybody here?")).to_be_visible()
        assert ended == []
        ready.set()
        await expect(page.get_by_text("Seats 11 to 13")).to_be_visible()


async def test_one_chooses_who_one_is_also_where_there_are_many_agents(context: BrowserContext) -> None:
    agents = [tw.Agent(f"agent{number}", instructions="Wait.") for number in range(200)]
    async with house(tw.App(agents=agents)) as made:
        await made.person("ada")
        page = await made.enter(context)
        await page.get_by_label("You are").click()
        await expect(page.get_by_role("option", name="Ada")).to_be_visible()


async def test_nothing_that_is_said_runs_as_script_or_markup(context: BrowserContext) -> None:
    async with trip(*spoken(HOSTILE)) as made:
        await made.rt.entities.update(made.people["bob"], display_name=HOSTILE[:80])
        bob = await made.enter(context, "/spaces/trip", person="bob")
        dialogs: list[str] = []
        bob.on("dialog", lambda dialog: dialogs.append(dialog.message))
        await say(bob, f"hotel {HOSTILE}")
        await expect(bob.locator("article.message .prose", has_text="{{7*7}}")).to_have_count(2)
        assert await bob.locator("#view img, #view script").count() == 0
        assert "49" not in await bob.locator("#view").inner_text()
        assert dialogs == []


async def test_unread_messages_are_counted_in_the_list_until_the_space_is_opened(
    context: BrowserContext,
) -> None:
    async with trip() as made:
        ada = await made.enter(context, "/", person="ada")
        await made.rt.spaces.say("trip", made.people["bob"], "Are you there?")
        trip_item = ada.locator("a.item", has_text="Trip to Tokyo")
        await expect(trip_item).to_contain_text("1 new")
        await trip_item.click()
        await expect(said(ada, "Are you there?")).to_be_visible()
        await ada.get_by_role("link", name="Spaces").click()
        await expect(trip_item).to_be_visible()
        await expect(trip_item).not_to_contain_text("new")


async def test_who_is_no_member_finds_no_space(context: BrowserContext) -> None:
    async with trip() as made:
        await made.person("eve")
        eve = await made.enter(context, "/spaces/trip", person="eve")
        await expect(eve.get_by_role("heading", name="Not found")).to_be_visible()
        await expect(eve.get_by_text("There is no space 'trip'.")).to_be_visible()
        await expect(eve.locator("article.message")).to_have_count(0)


async def test_who_is_taken_out_of_a_space_sees_nothing_more_of_it(context: BrowserContext) -> None:
    async with trip() as made:
        bob = await made.enter(context, "/spaces/trip", person="bob")
        await say(bob, "Hello")
        await expect(said(bob, "Hello")).to_be_visible()
        await made.rt.spaces.remove_member("trip", made.people["bob"])
        await expect(bob.get_by_text("You are no longer in this space.")).to_be_visible()
        await made.rt.spaces.say("trip", made.people["ada"], "Bob is gone, here is the secret.")
        await expect(said(bob, "secret")).to_have_count(0)


async def test_a_service_makes_a_space_takes_people_in_and_speaks_for_them(context: BrowserContext) -> None:
    async with trip() as made:
        page = await made.enter(context)
        await page.get_by_role("button", name="New space").click()
        await page.get_by_label("Name").fill("Office")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("heading", name="Office")).to_be_visible()
        await expect(page.get_by_text("A service posts messages as a person")).to_be_visible()
        await page.get_by_role("button", name="Members").click()
        await page.get_by_label("Add a person or agent").click()
        await page.get_by_role("option", name="Ada").click()
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.locator(".guest", has_text="Ada")).to_be_visible()
        await page.get_by_role("link", name="Spaces").click()
        await page.get_by_label("You are").click()
        await page.get_by_role("option", name="Ada").click()
        await page.get_by_role("link", name="Office").click()
        await say(page, "Hello from Ada")
        await expect(said(page, "Hello from Ada").locator(".who")).to_have_text("Ada")
        await page.get_by_role("button", name="Members").click()
        await page.get_by_label("Remove Ada").click()
        await expect(page.locator(".guest")).to_have_count(0)


async def test_what_changes_while_earlier_messages_are_drawn_is_not_missed(context: BrowserContext) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @tw.tool_ui("weigh")
    async def weigh(call: tw.ShownCall, submit: tw.Submit) -> None:
        began.set()
        await go_on.wait()

    async with asked(("weigh", {}), tool_uis=[weigh]) as made:
        ada = made.people["ada"]
        [run] = await made.rt.runs.list()
        await made.rt.runs.wait(run.id, 10)
        await made.rt.spaces.remove_member("trip", (await made.rt.agents.get("guide")).entity_id)
        said = [(await made.rt.spaces.say("trip", ada, f"Word {n}")).message for n in range(50)]
        page = await made.enter(context, "/spaces/trip", person="ada")
        await expect(page.locator("article.message")).to_have_count(50)
        bob = await made.enter(context, "/spaces/trip", person="bob")
        await page.get_by_role("button", name="Earlier messages").click()
        await asyncio.wait_for(began.wait(), 10)
        await made.rt.spaces.erase(said[-1].id)
        await made.rt.spaces.edit(said[-2].id, "Another word")
        await made.rt.spaces.say("trip", ada, "The end")
        # so the event was delivered here too
        await expect(bob.get_by_text("The end", exact=True)).to_be_visible()
        go_on.set()
        await expect(page.get_by_text("The end", exact=True)).to_have_count(1)
        await expect(page.get_by_text("Another word", exact=True)).to_have_count(1)
        await expect(page.get_by_text("Word 49", exact=True)).to_have_count(0)
        await expect(page.locator("article.message")).to_have_count(52)


async def test_a_flood_of_messages_is_read_and_not_drawn_one_by_one(context: BrowserContext) -> None:
    async with trip() as made:
        ada = await made.enter(context, "/spaces/trip", person="ada")
        await expect(ada.get_by_text("No messages yet.")).to_be_visible()
        bob = made.people["bob"]
        await asyncio.gather(*[made.rt.spaces.say("trip", bob, f"flood {n}.") for n in range(600)])
        [newest] = await made.rt.spaces.messages("trip", 1)
        await expect(said(ada, newest.message.content)).to_be_visible()
        assert await ada.locator("article.message").count() <= 200
        await made.rt.spaces.say("trip", bob, "The flood is over.")
        await expect(said(ada, "The flood is over.")).to_be_visible()


async def test_a_member_sees_a_long_result_as_the_value_that_it_is_and_opens_its_file(
    context: BrowserContext,
) -> None:
    @tw.tool(description="List orders.", visible=True)
    async def orders() -> dict[str, str | list[int]]:
        return {"customer": "Ada", "numbers": [*range(100_000)]}

    async with asked(("orders", {}), tools=[orders]) as opened:
        page = await opened.enter(context, "/spaces/trip", person="ada")
        drawn = card(page, "orders")
        await expect(drawn.locator("dt").get_by_text("customer", exact=True)).to_be_visible()
        url = await drawn.get_by_role("link", name="orders-success.json").get_attribute("href")
        answer = await page.request.get(f"{opened.origin}{url}")
        assert (await answer.json())["numbers"][-1] == 99_999
