"""Missing values in the console: they are given in a form, the run goes on, and secrets never come back."""

import asyncio
from collections.abc import Callable

import pytest
from playwright.async_api import BrowserContext, Page, WebSocket, expect

import toolwright as tw
from tests.browser.console.rig import house
from toolwright.core.env.variable import Variable

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
KEY = "sk-live-51fe-never-shown"
HOSTILE = "<img src=x onerror=window.hurt=1>"


def app(*variables: Variable) -> tw.App:
    """An app with a tool that needs these, and says with what it has found something."""

    @tw.tool(description="Look it up.", variables=variables)
    async def lookup(state: tw.ThreadState) -> str:
        return "found in " + " and ".join([state.env(each.name) or "?" for each in variables])

    return tw.App(tools=[lookup])


def heard(page: Page) -> Callable[[], str]:
    """All that comes over the web socket from now on, once the page is loaded again."""
    frames: list[str] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda payload: frames.append(str(payload)))

    page.on("websocket", listen)
    return lambda: "\n".join(frames)


async def test_a_secret_is_given_the_call_goes_on_and_the_value_never_comes_back(
    context: BrowserContext,
) -> None:
    variables = [Variable("API_KEY", "secret", description="From your account."), Variable("REGION", "text")]
    async with house(app(*variables)) as made:
        page = await made.enter(context, "/tools/lookup")
        said = heard(page)
        await page.reload()
        await page.get_by_role("button", name="Call").click()
        key = page.get_by_label("API_KEY")
        await expect(key).to_have_attribute("type", "password")
        await expect(
            page.get_by_label("Values that are missing").get_by_text("From your account.")
        ).to_be_visible()
        await key.fill(KEY)
        await page.get_by_role("button", name="Give").click()
        await expect(page.get_by_role("alert").filter(has_text="still missing: 'REGION'")).to_be_visible()
        await expect(page.get_by_label("API_KEY")).to_have_count(0)
        await page.get_by_label("REGION").fill("the north")
        await page.keyboard.press("Enter")
        await expect(page.locator("pre").filter(has_text="the north")).to_contain_text("[redacted:API_KEY]")
        assert KEY not in await page.content()
        assert "the north" in said()
        assert KEY not in said()


async def test_a_form_that_somebody_else_has_answered_says_so(context: BrowserContext) -> None:
    async with house(app(Variable("REGION", "text"))) as made:
        page = await made.enter(context, "/tools/lookup")
        await page.get_by_role("button", name="Call").click()
        field = page.get_by_label("REGION")
        await expect(field).to_be_visible()
        [run] = await made.rt.runs.list()
        request_id = str((run.waiting or {})["requestId"])
        await field.fill("the south")
        await asyncio.gather(
            made.rt.requests.answer(run.thread_id, request_id, {"REGION": "the north"}),
            page.keyboard.press("Enter"),
        )
        await expect(page.locator("pre").filter(has_text="the north")).to_be_visible()


async def test_names_and_descriptions_that_are_hostile_run_nothing(context: BrowserContext) -> None:
    async with house(app(Variable(HOSTILE, "text", description=HOSTILE))) as made:
        page = await made.enter(context, "/tools/lookup")
        await page.get_by_role("button", name="Call").click()
        await page.get_by_label(HOSTILE).fill("the north")
        await page.get_by_role("button", name="Give").click()
        await expect(page.get_by_text("found in the north")).to_be_visible()
        await expect(page.locator("#view img")).to_have_count(0)
        assert await page.evaluate("window.hurt") is None
