"""Missing values in the console: entered in a form, the run continues, and secrets are never sent back."""

from collections.abc import Callable

import pytest
from playwright.async_api import BrowserContext, Page, WebSocket, expect

import toolwright as tw
from tests.browser.console.rig import House, house
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Run
from toolwright.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
KEY = "sk-live-51fe-never-shown"
HOSTILE = "<img src=x onerror=window.hurt=1>"


def app(*variables: tw.Variable) -> tw.App:
    """Return an app whose agent has a tool that requires these values, and reports which it has used."""

    @tw.tool(description="Look it up.", variables=variables)
    async def lookup(state: tw.ThreadState) -> str:
        return "found in " + " and ".join([str(await state.env(each.name)) for each in variables])

    return tw.App(tools=[lookup], agents=[tw.Agent("clerk", instructions="You look.", tools=["lookup"])])


def looking() -> ScriptedModel:
    call: JSONObject = {"name": "lookup", "args": {}}
    return ScriptedModel([{"calls": [call]}, {"text": "Here you are."}])


async def asked(made: House, user_id: str | None = None) -> Run:
    """Start a run that waits for values which its tool requires."""
    thread = await made.rt.threads.create("clerk", user_id)
    run = await made.rt.threads.send(thread.id, "Look")
    async for event in made.rt.events.follow(Topic(kind="run", id=run.id), after=0):
        if event.type == "variables.required":
            break
    return await made.rt.runs.get(run.id)


def heard(page: Page) -> Callable[[], str]:
    """Record everything that arrives over the web socket, after reloading the page."""
    frames: list[str] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framereceived", lambda payload: frames.append(str(payload)))

    page.on("websocket", listen)
    return lambda: "\n".join(frames)


async def test_a_secret_is_given_the_run_goes_on_and_the_value_never_comes_back(
    context: BrowserContext,
) -> None:
    variables = [
        tw.Variable("API_KEY", "secret", description="From your account."),
        tw.Variable("REGION", "text"),
    ]
    async with house(app(*variables), model=looking()) as made:
        run = await asked(made)
        page = await made.enter(context, f"/runs/{run.id}")
        said = heard(page)
        await page.reload()
        key = page.get_by_label("API_KEY")
        await expect(key).to_have_attribute("type", "password")
        await expect(
            page.get_by_label("Values that are missing").get_by_text("From your account.")
        ).to_be_visible()
        await key.fill(KEY)
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert").filter(has_text="still missing: 'REGION'")).to_be_visible()
        await expect(page.get_by_label("API_KEY")).to_have_count(0)
        await page.get_by_label("REGION").fill("the north")
        await page.keyboard.press("Enter")
        await expect(page.locator("#view")).to_contain_text("Here you are.")
        assert (await made.rt.runs.get(run.id)).status == "completed"
        assert (await made.rt.calls.list(status=None))[0].result == {
            "status": "success",
            "result": "found in [redacted:API_KEY] and the north",
        }
        assert "REGION" in said()
        assert KEY not in said() + await page.content()


async def test_a_person_gives_what_their_own_run_waits_for_and_no_others(context: BrowserContext) -> None:
    async with house(app(tw.Variable("REGION", "text")), model=looking()) as made:
        ada, bob = await made.person("ada"), await made.person("bob")
        theirs, other = await asked(made, ada), await asked(made, bob)
        page = await made.enter(context, f"/runs/{other.id}", person="ada")
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        await page.goto(f"{made.url}/runs/{theirs.id}")
        await page.get_by_label("REGION").fill("the north")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#view")).to_contain_text("Here you are.")
        assert (await made.rt.runs.get(other.id)).status == "waiting"


async def test_a_form_that_another_person_has_answered_disappears(context: BrowserContext) -> None:
    async with house(app(tw.Variable("REGION", "text")), model=looking()) as made:
        run = await asked(made)
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(page.get_by_label("REGION")).to_be_visible()
        request_id = str((run.waiting or {})["requestId"])
        await made.rt.requests.answer(run.thread_id, request_id, {"REGION": "the north"})
        await expect(page.locator("#view")).to_contain_text("Here you are.")
        await expect(page.get_by_label("REGION")).to_have_count(0)


async def test_a_call_without_required_values_is_made_again_with_them(context: BrowserContext) -> None:
    variables = [tw.Variable("API_KEY", "secret"), tw.Variable("REGION", "text")]
    async with house(app(*variables)) as made:
        page = await made.enter(context, "/tools/lookup")
        said = heard(page)
        await page.reload()
        await page.get_by_role("button", name="Call").click()
        await expect(page.get_by_role("alert")).to_contain_text("needs variables that are not set here")
        await page.get_by_label("API_KEY").fill(KEY)
        await page.get_by_role("button", name="Save and call again").click()
        await expect(page.get_by_role("alert")).to_contain_text("not set here: REGION")
        await page.get_by_label("REGION").fill("the north")
        await page.get_by_role("button", name="Save and call again").click()
        await expect(page.locator("pre").last).to_have_text("found in [redacted:API_KEY] and the north")
        assert KEY not in said() + await page.content()


async def test_a_call_of_an_agents_tool_waits_for_the_missing_values(context: BrowserContext) -> None:
    async with house(app(tw.Variable("REGION", "text"))) as made:
        page = await made.enter(context, f"/tools/{(await made.rt.agents.get('clerk')).id}/lookup")
        await page.get_by_role("button", name="Call").click()
        await page.get_by_label("REGION").fill("the north")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("pre").last).to_have_text("found in the north")


async def test_names_and_descriptions_that_are_hostile_run_nothing(context: BrowserContext) -> None:
    async with house(app(tw.Variable(HOSTILE, "text", description=HOSTILE)), model=looking()) as made:
        run = await asked(made)
        page = await made.enter(context, f"/runs/{run.id}")
        await page.get_by_label(HOSTILE).fill("the north")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#view")).to_contain_text("Here you are.")
        await expect(page.locator("#view img")).to_have_count(0)
        assert await page.evaluate("window.hurt") is None
