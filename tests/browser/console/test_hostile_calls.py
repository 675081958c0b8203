"""Nothing in a call is executed on a page: not its arguments, its results, its files, its errors, its schema."""

import base64
import re
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, expect

import toolwright as tw
from tests.browser.console.asking import asked, asking, card
from toolwright.core.results import Attachment, ToolResult

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
TAG = '<img src=x onerror="window.pwned=1;alert(1)">'
WORDS = f"{TAG} {{{{7*7}}}} {{{{window.pwned=1}}}} </textarea></script><script>window.pwned=1</script>"
RULE = {":formatter": "() => { window.pwned = 1; return '' }", "formatter": WORDS, "renderMode": "html"}
CHART = {
    "type": "bar",
    "title": WORDS,
    "labels": [TAG, "b"],
    "series": [{"name": WORDS, "data": [1, {"name": TAG, "value": 2, **RULE}], "label": RULE, **RULE}],
    "tooltip": RULE,
    "graphic": {"type": "image", "style": {"image": "javascript:window.pwned=1"}},
    ":series": "window.pwned = 1",
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        WORDS: {"type": "string", "description": WORDS, "title": WORDS},
        ":onclick": {"enum": [TAG, WORDS], "default": TAG},
        "deep": {"type": "object", "title": WORDS, "properties": {TAG: {"type": "boolean", "title": TAG}}},
    },
}
MADE: list[tuple[str, dict[str, Any]]] = [
    ("confirmAction", {"question": WORDS, TAG: WORDS, "list": [WORDS], "deep": {TAG: {":a": WORDS}}}),
    ("fillForm", {WORDS: WORDS, TAG: TAG}),
    ("chooseOption", {"question": WORDS, "options": [{"label": TAG, "value": WORDS, "description": WORDS}]}),
    ("askChoice", {"options": [{"label": TAG, "description": WORDS}, WORDS], "multiple": True}),
    ("renderChart", CHART),
    (
        "showTable",
        {"title": WORDS, "columns": [TAG, {":key": WORDS, "title": WORDS}], "rows": [[WORDS, {TAG: TAG}]]},
    ),
    ("showImage", {"url": "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", "caption": WORDS}),
    ("showFile", {"url": "javascript:window.pwned=1"}),
    ("showProgress", {"done": 1, "total": 2, "text": WORDS}),
    ("showJson", {TAG: WORDS}),
    ("lookUp", {TAG: WORDS, "url": "javascript:window.pwned=1", "list": [[TAG]]}),
]


def watched(page: Page) -> list[str]:
    """Record dialogs that the page opens from now on."""
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    return dialogs


async def is_unharmed(page: Page, dialogs: list[str]) -> None:
    """Check that no script has run, and that no element was created from text."""
    assert await page.evaluate("window.pwned") is None
    assert dialogs == []
    await expect(page.locator('img[src="x"], [src^="javascript:"], [href^="javascript:"]')).to_have_count(0)
    await expect(page.locator('img[src^="data:image/svg"]')).to_have_count(0)
    await expect(page.get_by_text("49", exact=True)).to_have_count(0)


async def test_hostile_calls_are_shown_as_the_text_that_they_are(context: BrowserContext) -> None:
    tools = [asking(name, SCHEMA if name == "fillForm" else {"type": "object"}) for name, _ in MADE]
    async with asked(*MADE, tools=tools) as opened:
        page = await opened.enter(context, "/pending")
        dialogs = watched(page)
        for name, _ in MADE:
            await expect(card(page, name)).to_be_visible()
        await expect(page.get_by_role("heading", name=TAG).first).to_be_visible()
        await expect(card(page, "confirmAction").get_by_text("{{7*7}}").first).to_be_visible()
        await card(page, "renderChart").locator("svg").hover()
        await card(page, "renderChart").get_by_text("Show as a table").click()
        await card(page, "fillForm").get_by_role("combobox").first.click()
        await expect(page.get_by_role("option").first).to_have_text(TAG)
        await is_unharmed(page, dialogs)


async def test_hostile_results_are_shown_as_the_text_that_they_are(context: BrowserContext) -> None:
    async with asked(*MADE) as opened:
        page = await opened.enter(context, "/pending")
        dialogs = watched(page)
        await expect(card(page, "lookUp")).to_be_visible()
        evil = base64.b64encode(b"<script>window.pwned=1</script>").decode()
        files = (
            Attachment(name=f"{TAG}.html", mime_type="text/html", data=evil),
            Attachment(name="x.svg", mime_type="image/svg+xml", data=evil),
        )
        for number, call in enumerate(await opened.rt.calls.list()):
            result: dict[str, Any] = {
                "choice": WORDS,
                TAG: WORDS,
                "rows": [[TAG]],
                "confirmed": TAG,
                "url": "javascript:alert(1)",
            }
            outcome = ToolResult.fail(WORDS) if number % 3 == 1 else ToolResult.ok({**result}, files)
            await opened.rt.calls.submit(call.run_id, call.id, outcome)
        for name, _ in MADE:
            await expect(card(page, name).locator(".badge").first).to_have_text(
                ("done", "failed")[MADE_FAILED[name]]
            )
        await expect(page.get_by_role("link", name=re.compile("svg")).first).to_be_visible()
        await expect(page.get_by_role("img", name=re.compile("svg"))).to_have_count(0)
        await is_unharmed(page, dialogs)


MADE_FAILED = {name: number % 3 == 1 for number, (name, _) in enumerate(MADE)}


async def test_a_hostile_question_is_shown_as_the_text_that_it_is(context: BrowserContext) -> None:
    @tw.tool(visible=True)
    async def consult(state: tw.ThreadState) -> str:
        """Ask."""
        await state.elicit(WORDS, SCHEMA, source=TAG)
        return WORDS

    async with asked(("consult", {}), tools=[consult]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        dialogs = watched(page)
        await expect(card(page, "elicit").get_by_text(f"{TAG} asks")).to_be_visible()
        await is_unharmed(page, dialogs)
        await card(page, "elicit").get_by_role("button", name="Decline").click()
        await expect(card(page, "elicit").get_by_text("Declined")).to_be_visible()
        await is_unharmed(page, dialogs)


async def test_a_hostile_call_is_approved_as_the_text_that_it_is(context: BrowserContext) -> None:
    @tw.tool(requires_approval=True, visible=True)
    async def pay(what: str) -> str:
        """Pay."""
        return WORDS

    async with asked(("pay", {"what": WORDS}), tools=[pay]) as opened:
        page = await opened.enter(context, "/pending", person="ada")
        dialogs = watched(page)
        await expect(card(page, "pay").get_by_text("{{7*7}}").first).to_be_visible()
        await card(page, "pay").get_by_role("button", name="Edit the arguments").click()
        await expect(card(page, "pay").get_by_label("what")).to_have_value(WORDS)
        await card(page, "pay").get_by_role("button", name="Approve").click()
        await expect(card(page, "pay").locator(".outcome")).to_contain_text("{{7*7}}")
        await is_unharmed(page, dialogs)
