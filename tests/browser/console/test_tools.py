"""Tools in the console: their parameters, and calling them by a form."""

import re

import pytest
from playwright.async_api import BrowserContext, expect
from pydantic import BaseModel

import toolwright as tw
from tests.browser.console.rig import house
from toolwright.core.json_value import JSONObject

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
HOSTILE = "<img src=x onerror=window.hurt=1> {{ window.hurt=1 }}"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Guest(BaseModel):
    name: str
    age: int = 30


@tw.tool(description="Greet a guest.", read_only=True)
async def greet(name: str, times: int = 2) -> str:
    return ", ".join([f"hello {name}"] * times)


@tw.tool(description="Book a room.")
async def book(guest: Guest, nights: list[str]) -> dict[str, object]:
    return {"booked": guest.name, "in": guest.age + 1, "nights": nights}


@tw.tool(description="Break.")
async def break_down() -> str:
    raise ValueError("the drawer is stuck")


@tw.tool(description="Burn it.", destructive=True)
async def burn() -> str:
    return "ashes"


@tw.tool(description="Draw.")
async def draw() -> tw.ToolResult:
    files = (tw.Attachment(name="dot.png", mime_type="image/png", data=DOT),)
    return tw.ToolResult.ok({"drawn": HOSTILE}, files)


@tw.tool(description="Spend.", requires_approval=True)
async def spend() -> str:
    return "spent"


@tw.tool(description="Tell all.")
async def tell_all() -> dict[str, object]:
    return {"rows": [{"n": n, "text": "word " * 200} for n in range(3_000)]}


outside = tw.Tool(name="outside", description="Ask outside.", kind="external", timeout=60.0)


def app() -> tw.App:
    own = tw.tool(name="whisper", description="Whisper.")(greet.handler)  # pyright: ignore[reportArgumentType]  # the handler exists
    agent = tw.Agent("concierge", instructions="You help.", tools=[own, "greet"], toolkits=["mind"])
    return tw.App(tools=[greet, book, break_down, burn, draw, outside, spend, tell_all], agents=[agent])


async def test_the_list_groups_tools_by_whose_they_are_and_is_narrowed_by_text(
    context: BrowserContext,
) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools")
        rows = page.locator(".list > .item")
        await expect(rows).to_have_count(11)
        await expect(rows.filter(has_text="greet")).to_contain_text("read only")
        await page.get_by_label("Filter").fill("whisper")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_have_text("concierge")
        await rows.get_by_role("link", name="whisper").click()
        await expect(page.get_by_role("heading", name="whisper")).to_be_visible()
        await expect(page.get_by_text("The agent executes the call")).to_be_visible()


async def test_a_tool_is_called_by_its_form_and_the_call_is_recorded(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/greet")
        await expect(page.locator("table.grid")).to_contain_text("Default: 2")
        await page.get_by_role("button", name="Call").click()
        await expect(page.get_by_role("alert").first).to_be_visible()
        await page.get_by_label("name *").fill("Ada")
        await page.get_by_role("button", name="Call").click()
        await expect(page.locator("pre").last).to_have_text("hello Ada, hello Ada")
        await expect(page.locator(".card .badge.good")).to_have_text("done")
        [run] = await made.rt.runs.list()
        link = page.get_by_role("link", name="Its run")
        await expect(link).to_have_attribute("href", f"/console/runs/{run.id}")


async def test_nested_arguments_are_entered_and_sent(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/book")
        await page.get_by_label("name *").fill("Ada")
        await page.get_by_label("age").fill("41")
        await page.get_by_label("nights").fill("Monday\nTuesday")
        await page.get_by_role("button", name="Call").click()
        result = page.locator("pre").last
        await expect(result).to_contain_text('"booked": "Ada"')
        await expect(result).to_contain_text('"in": 42')
        await expect(result).to_contain_text('"Tuesday"')


async def test_an_error_is_shown_in_words(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/break_down")
        await page.get_by_role("button", name="Call").click()
        await expect(page.get_by_role("alert")).to_contain_text("the drawer is stuck")
        await expect(page.locator(".card .badge.bad").first).to_have_text("error")


async def test_a_destructive_tool_asks_before(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/burn")
        await page.get_by_role("button", name="Call").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        assert await made.rt.runs.list() == []
        await page.get_by_role("button", name="Call").click()
        await page.get_by_role("dialog").get_by_role("button", name="Call").click()
        await expect(page.get_by_text("ashes")).to_be_visible()


async def test_files_of_a_result_are_shown_and_its_text_is_no_markup(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/draw")
        await page.get_by_role("button", name="Call").click()
        image = page.get_by_role("img", name="dot.png")
        await expect(image).to_be_visible()
        assert await image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
        await expect(page.locator("pre").last).to_contain_text("<img src=x onerror")
        assert await page.evaluate("window.hurt") is None


async def test_a_call_that_waits_outside_can_be_cancelled(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/outside")
        await page.get_by_role("button", name="Call").click()
        await expect(page.get_by_text("Waiting for an external result.")).to_be_visible()
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator(".card .badge").first).to_have_text("cancelled")


async def test_a_call_that_waits_for_an_approval_goes_on_when_it_is_given(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/spend")
        await page.get_by_role("button", name="Call").click()
        await expect(page.get_by_text("Waiting for approval.")).to_be_visible()
        [call] = await made.rt.calls.list()
        await made.rt.calls.submit(call.run_id, call.id, {"approved": True})
        await expect(page.locator("pre").last).to_have_text("spent")


async def test_of_a_large_result_the_beginning_is_shown_and_its_size(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/tell_all")
        await page.get_by_role("button", name="Call").click()
        result = page.locator("pre").last
        await expect(result).to_contain_text("characters)")
        assert len(await result.inner_text()) < 40_000


async def test_a_tool_of_an_agents_toolkit_is_called_as_that_agent(context: BrowserContext) -> None:
    async with house(app()) as made:
        agent = await made.rt.agents.get("concierge")
        page = await made.enter(context, f"/tools/{agent.id}/set_memories")
        await page.get_by_label("memories").fill('[{"key": "wifi", "value": "guest-1234"}]')
        await page.get_by_role("button", name="Call").click()
        await expect(page.locator(".card .badge.good")).to_have_text("done")
        [memory] = await made.rt.minds.memories("concierge")
        assert (memory.key, memory.value) == ("wifi", "guest-1234")


@pytest.mark.parametrize("name", [HOSTILE, "a/b?c#d%2Fe"])
async def test_hostile_names_of_tools_lead_to_their_pages_and_run_nothing(
    context: BrowserContext, name: str
) -> None:
    schema: JSONObject = {
        "type": "object",
        "properties": {HOSTILE: {"type": "string", "description": HOSTILE, "default": HOSTILE}},
    }
    tool = tw.Tool(name=name, description=HOSTILE, kind="external", parameters=schema)
    async with house(tw.App(tools=[tool])) as made:
        page = await made.enter(context, "/tools")
        await page.get_by_role("link", name=name).click()
        await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        await expect(page).to_have_url(re.compile(r"/tools/-\?name="))
        await page.reload()
        await expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        await expect(page.get_by_label(HOSTILE)).to_have_value(HOSTILE)
        await page.get_by_text("Schema as JSON").click()
        await expect(page.locator("pre").first).to_contain_text("onerror")
        await expect(page.locator("#view img")).to_have_count(0)
        assert await page.evaluate("window.hurt") is None


async def test_a_missing_tool_is_reported(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/tools/nothing")
        await expect(page.get_by_text("There is no tool 'nothing'.")).to_be_visible()
