"""Components that draw the calls of visible tools, and take the answers to them."""

import base64
from typing import Any

import pytest
from nicegui import ui
from playwright.async_api import BrowserContext, expect

import toolwright as tw
from tests.browser.console.asking import asked, asking, card
from toolwright.core.json_value import JSON
from toolwright.core.results import Attachment, ToolResult
from toolwright.runtime.runtime import Runtime

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ROOM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "guest": {"type": "string", "title": "Your name"},
        "nights": {"type": "integer", "minimum": 1},
        "view": {"enum": ["sea", "street"]},
        "breakfast": {"type": "boolean"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["guest", "nights", "address"],
}


async def result_of(rt: Runtime, name: str) -> JSON:
    """Return the recorded result of the call of that tool."""
    calls = [call for call in await rt.calls.list(status=None) if call.name == name]
    return (calls[0].result or {}).get("result")


async def test_a_form_shows_its_errors_at_the_fields_and_sends_what_was_entered(
    context: BrowserContext,
) -> None:
    made = ("bookRoom", {"guest": "Adda", "nights": 2, "address": {"city": "Paris"}})
    async with asked(
        made, tools=[asking("bookRoom", ROOM)], tool_uis=[tw.tool_ui("bookRoom", "form")]
    ) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        form = card(page, "bookRoom")
        await expect(form.get_by_label("nights")).to_have_value("2")
        await form.get_by_label("nights").fill("0")
        await form.get_by_role("button", name="Send").click()
        await expect(form.get_by_text("must be at least 1")).to_be_visible()
        await form.get_by_label("Your name").fill("")
        await form.get_by_role("button", name="Send").click()
        await expect(form.get_by_text("is missing")).to_be_visible()
        await form.get_by_label("nights").fill("3")
        await form.get_by_label("Your name").fill("Ada")
        await form.get_by_label("city").fill("London")
        await form.get_by_role("checkbox", name="breakfast").click()
        await form.get_by_label("view").click()
        await page.get_by_role("option", name="sea").click()
        await form.get_by_role("button", name="Send").click()
        await expect(form.locator(".badge")).to_have_text("done")
        assert await result_of(opened.rt, "bookRoom") == {
            "guest": "Ada",
            "nights": 3,
            "view": "sea",
            "breakfast": True,
            "address": {"city": "London"},
        }


async def test_a_choice_is_made_with_one_click_and_shown_by_its_label(context: BrowserContext) -> None:
    options = [{"label": "Park Hotel", "value": 7, "description": "By the park"}, "Elsewhere"]
    async with asked(("chooseOption", {"question": "Which hotel?", "options": options})) as opened:
        page = await opened.enter(context, "/pending", person="bob")
        choice = card(page, "chooseOption")
        await expect(choice.get_by_text("By the park")).to_be_visible()
        await choice.get_by_role("button", name="Park Hotel").click()
        await expect(choice.get_by_role("button")).to_have_count(0)
        await expect(choice.locator(".badge.good").last).to_have_text("Park Hotel")
        assert await result_of(opened.rt, "chooseOption") == {"choice": 7}


async def test_several_options_are_ticked_and_sent(context: BrowserContext) -> None:
    async with asked(("askChoice", {"options": ["mo", "tu", "we"], "multiple": True})) as opened:
        page = await opened.enter(context, "/pending", person="bob")
        choice = card(page, "askChoice")
        await choice.get_by_text("mo", exact=True).click()
        await choice.get_by_text("we", exact=True).click()
        await choice.get_by_role("button", name="Answer").click()
        await expect(choice.locator(".badge.good")).to_have_text(["done", "mo", "we"])
        assert await result_of(opened.rt, "askChoice") == {"choices": ["mo", "we"]}


async def test_a_chart_is_drawn_and_can_be_read_as_a_table(context: BrowserContext) -> None:
    series = [{"name": "2025", "data": [3, 5]}, {"name": "2026", "data": [4, 6.5]}]
    chart = {"type": "bar", "title": "Visitors", "labels": ["Mon", "Tue"], "series": series}
    async with asked(("renderChart", chart)) as opened:
        page = await opened.enter(context, "/pending")
        drawn = card(page, "renderChart")
        await expect(
            drawn.get_by_role("img", name="Chart: Visitors").locator("svg text", has_text="Tue")
        ).to_be_visible()
        await drawn.get_by_text("Show as a table").click()
        await expect(drawn.get_by_role("row").nth(2)).to_have_text("Tue56.5")


async def test_a_table_is_read_page_by_page(context: BrowserContext) -> None:
    rows = [[f"Hotel {number}", number] for number in range(60)]
    async with asked(("showTable", {"columns": ["Name", {"label": "Price"}], "rows": rows})) as opened:
        page = await opened.enter(context, "/pending")
        table = card(page, "showTable")
        await expect(table.get_by_text("1 to 25 of 60 rows")).to_be_visible()
        await table.get_by_role("button", name="Next").click()
        await table.get_by_role("button", name="Next").click()
        await expect(table.get_by_role("row")).to_have_count(11)
        await expect(table.get_by_role("cell", name="Hotel 59")).to_be_visible()
        await expect(table.get_by_role("button", name="Next")).to_have_count(0)


@pytest.mark.parametrize("person", [None, "ada"], ids=["a service", "a person in the space"])
async def test_images_and_files_of_a_result_appear_and_can_be_opened(
    context: BrowserContext, person: str | None
) -> None:
    async with asked(("showImage", {"caption": "The lobby"})) as opened:
        page = await opened.enter(context, "/pending", person=person)
        shown = card(page, "showImage")
        await expect(shown.get_by_text("The lobby")).to_be_visible()
        [call] = await opened.rt.calls.list()
        files = (
            Attachment(name="lobby.png", mime_type="image/png", data=PIXEL),
            Attachment(
                name="a & b?.pdf", mime_type="application/pdf", data=base64.b64encode(b"pages").decode()
            ),
        )
        await opened.rt.calls.submit(call.run_id, call.id, ToolResult.ok(None, files))
        picture = shown.get_by_role("img", name="lobby.png")
        await expect(picture).to_be_visible()
        await expect(picture).to_have_js_property("naturalWidth", 1)
        link = shown.get_by_role("link", name="a & b")
        answer = await page.request.get(await link.evaluate("link => link.href"))
        assert (answer.status, await answer.body()) == (200, b"pages")
        assert answer.headers["content-disposition"].startswith("attachment")


async def test_an_answer_that_nothing_else_takes_is_text_or_json_or_a_failure(
    context: BrowserContext,
) -> None:
    async with asked(("lookUp", {"order": "A7"}), ("weigh", {}), ("fetchIt", {})) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        for name, entered, button in (
            ("lookUp", '{"found": [1]}', "Answer"),
            ("weigh", "two kilos", "Answer"),
            ("fetchIt", "It is gone.", "Report an error"),
        ):
            await card(page, name).get_by_label("Result: text, or JSON").fill(entered)
            await card(page, name).get_by_role("button", name=button).click()
        await expect(card(page, "fetchIt").locator(".error")).to_have_text("It is gone.")
        await expect(card(page, "weigh").locator(".outcome")).to_contain_text("two kilos")
        assert await result_of(opened.rt, "lookUp") == {"found": [1]}
        assert await result_of(opened.rt, "weigh") == "two kilos"


async def test_a_call_is_approved_with_other_arguments(context: BrowserContext) -> None:
    paid: list[tuple[str, int]] = []

    @tw.tool(requires_approval=True, visible=True)
    async def refund(order: str, amount: int) -> str:
        """Pay money back."""
        paid.append((order, amount))
        return "Paid."

    async with asked(("refund", {"order": "A7", "amount": 900}), tools=[refund]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        asks = card(page, "refund")
        await expect(asks.locator(".badge")).to_have_text("waiting for approval")
        await asks.get_by_role("button", name="Edit the arguments").click()
        await asks.get_by_label("amount").fill("much")
        await asks.get_by_role("button", name="Approve").click()
        await expect(asks.get_by_text("must be a whole number")).to_be_visible()
        await asks.get_by_label("amount").fill("90")
        await asks.get_by_role("button", name="Approve").click()
        await expect(asks.locator(".badge")).to_have_text("done")
        assert paid == [("A7", 90)]


async def test_a_refusal_brings_its_reason(context: BrowserContext) -> None:
    @tw.tool(requires_approval=tw.Approval(edit=False), visible=True)
    async def refund(order: str) -> str:
        """Pay money back."""
        raise AssertionError

    async with asked(("refund", {"order": "A7"}), tools=[refund]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        asks = card(page, "refund")
        await expect(asks.get_by_role("button", name="Edit the arguments")).to_be_hidden()
        await asks.get_by_label("Reason (optional)").fill("too much")
        await asks.get_by_role("button", name="Refuse").click()
        await expect(asks.locator(".error")).to_have_text("The call was not approved: too much")


async def test_a_question_of_a_tool_is_answered_with_a_form(context: BrowserContext) -> None:
    heard: list[tw.Elicited] = []

    @tw.tool(visible=True)
    async def tidy(state: tw.ThreadState) -> str:
        """Delete old notes."""
        schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        heard.append(await state.elicit("Delete 3 notes?", schema, source="notes"))
        return "Tidy."

    async with asked(("tidy", {}), tools=[tidy]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        question = card(page, "elicit")
        await expect(question.get_by_text("notes asks")).to_be_visible()
        await question.get_by_role("checkbox", name="sure").click()
        await question.get_by_role("button", name="Answer").click()
        await expect(question.get_by_text("Answered", exact=True)).to_be_visible()
        assert [(each.action, each.content) for each in heard] == [("accept", {"sure": True})]


async def test_an_apps_own_component_draws_its_tool_and_hands_in_the_result(context: BrowserContext) -> None:
    @tw.tool_ui("pickSeat")
    async def draw(call: tw.ShownCall, submit: tw.Submit) -> None:
        ui.label(f"{call.status}: {call.args} {call.result}")
        if call.may_answer:
            ui.button("Seat 12", on_click=lambda: submit({"seat": 12}))

    async with asked(("pickSeat", {"row": 3}), tool_uis=[draw]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        await expect(page.get_by_text("requires_action: {'row': 3} None")).to_be_visible()
        await page.get_by_role("button", name="Seat 12").click()
        await expect(page.get_by_text("complete: {'row': 3} {'seat': 12}")).to_be_visible()
        await expect(page.get_by_role("button", name="Seat 12")).to_have_count(0)


async def test_a_component_that_fails_leaves_the_call_to_be_answered(
    context: BrowserContext, caplog: pytest.LogCaptureFixture
) -> None:
    @tw.tool_ui("pickSeat")
    def draw(call: tw.ShownCall, submit: tw.Submit) -> None:
        ui.label("half a")
        raise LookupError("no seats <b>left</b>")

    async with asked(("pickSeat", {"row": 3}), tool_uis=[draw]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        seat = card(page, "pickSeat")
        await expect(seat.locator(".error")).to_contain_text(
            "The component of this tool failed (LookupError)"
        )
        await expect(seat.get_by_text("half a")).to_have_count(0)
        await seat.get_by_label("Result: text, or JSON").fill("12")
        await seat.get_by_role("button", name="Answer").click()
        await expect(seat.locator(".badge")).to_have_text("done")
        assert await result_of(opened.rt, "pickSeat") == 12
    assert "The component of the tool 'pickSeat' failed." in caplog.text
