"""Runs in the console: followed step by step, cancelled, listed, and visible only to people with access."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Locator, Page, expect

import toolwright as tw
from tests.browser.console.rig import house
from tests.browser.console.test_threads import HOSTILE, Gate, no_overflow, unharmed
from tests.kit import ran, send_to
from toolwright.core.journal.units import Node
from toolwright.testing import FunctionModel, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@tw.tool(description="Counts.")
async def count(number: int) -> int:
    return number


@tw.tool(description="Fails.")
async def fail() -> str:
    raise RuntimeError(f"The oven is cold. {HOSTILE}")


def cook(*tools: Any) -> tw.Agent:
    prompt = tw.Prompt("cook", "You cook.", tools=[count, fail, *tools])
    return tw.Agent("cook", tw.Side(prompt, max_steps=100))


def step(page: Page, number: int) -> Locator:
    return page.locator(".step").filter(has=page.get_by_role("heading", name=f"Step {number}", exact=True))


def fold(page: Page, name: str) -> Locator:
    return page.locator(".fold", has=page.locator("summary .title", has_text=name))


async def test_a_run_is_followed_from_its_first_step_to_its_end(context: BrowserContext) -> None:
    gate = Gate()
    turns: list[Any] = [
        {"text": "I count first.", "calls": [{"name": "count", "args": {"number": 7}}], "delay": 1,
         "usage": {"input_tokens": 1200, "output_tokens": 80}},
        {"text": "It is seven.", "delay": 1},
    ]  # fmt: skip
    async with house(tw.App(agents=[cook()]), model=ScriptedModel(turns, sleep=gate.sleep)) as made:
        run = await send_to(made.rt, "cook", "Count")
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(page.locator("h1 + .badge")).to_have_text("running")
        gate.open()
        await expect(page.locator(".streaming")).to_contain_text("I count")
        gate.open(100)
        await expect(page.locator("h1 + .badge")).to_have_text("completed")
        await expect(page.locator(".streaming")).to_have_count(0)
        await expect(step(page, 1)).to_contain_text("1,200 in · 80 out")
        await expect(step(page, 1)).to_contain_text("I count first.")
        await expect(step(page, 2)).to_contain_text("It is seven.")
        await fold(page, "count").locator("summary").click()
        await expect(fold(page, "count").locator(".code")).to_have_text(['{\n  "number": 7\n}', "7"])
        await expect(page.get_by_role("button", name="Cancel the run")).to_have_count(0)


async def test_one_goes_from_a_call_to_the_thread_below_and_back(context: BrowserContext) -> None:
    gate = Gate()
    helper = tw.Agent(
        "helper",
        tw.Prompt("helper", "You help."),
        expose_as_tool=True,
        tool_description="Helps with anything.",
    )
    boss = tw.Agent("boss", tw.Prompt("boss", "You lead.", tools=[tw.SubagentToolConfig(name="helper")]))
    script = {
        "boss": [
            {"calls": [{"name": "helper", "args": {"message": "Find salt"}}]},
            {"text": "We have salt."},
        ],
        "helper": [{"text": "Here is salt.", "delay": 1}],
    }
    async with house(tw.App(agents=[boss, helper]), model=ScriptedModel(script, sleep=gate.sleep)) as made:
        run = await send_to(made.rt, "boss", "Salt?")
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(page.get_by_text("This run waits for a child thread.")).to_be_visible()
        await page.get_by_role("link", name="See the child threads").click()
        tree = page.get_by_role("tree")
        await expect(tree.locator(".badge")).to_have_text("running")
        gate.open(100)
        await expect(tree.locator(".badge")).not_to_have_text("running")
        await page.goto(f"{made.url}/runs/{run.id}")
        await fold(page, "helper").locator("summary").click()
        await page.get_by_role("link", name="Its thread").click()
        await expect(page.get_by_role("heading", name="helper")).to_be_visible()
        await expect(page.locator(".message", has_text="Here is salt.")).to_be_visible()
        await page.get_by_role("navigation", name="Parent threads").get_by_role("link").click()
        await expect(page.get_by_role("heading", name="Salt?")).to_be_visible()
        await expect(page.locator(".message", has_text="We have salt.")).to_be_visible()


async def test_a_run_is_cancelled_after_a_question(context: BrowserContext) -> None:
    async with house(
        tw.App(agents=[cook()]), model=ScriptedModel([{"text": "Slowly.", "delay": 1}], sleep=Gate().sleep)
    ) as made:
        run = await send_to(made.rt, "cook", "Cook")
        page = await made.enter(context, f"/runs/{run.id}")
        other = await context.new_page()
        await other.goto(f"{made.url}/runs/{run.id}")
        await other.get_by_role("button", name="Cancel the run").click()
        await page.get_by_role("button", name="Cancel the run").click()
        await page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
        await expect(page.get_by_text("The run is being cancelled.")).to_be_visible()
        await expect(page.locator("h1 + .badge")).to_have_text("cancelled")
        await other.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
        await expect(other.get_by_text("has already finished")).to_be_visible()


async def test_what_failed_says_so_and_runs_nothing(context: BrowserContext) -> None:
    turns: list[Any] = [
        {"calls": [{"name": "fail", "args": {}}]},
        {"fail": "refused", "message": f"No more. {HOSTILE}"},
    ]
    async with house(tw.App(agents=[cook()]), model=ScriptedModel(turns)) as made:
        run = await ran(made.rt, "cook", HOSTILE)
        assert run.status == "failed"
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(page.get_by_role("alert")).to_contain_text("No more.")
        await expect(fold(page, "fail").locator("summary")).to_contain_text("The oven is cold.")
        await fold(page, "fail").locator("summary").click()
        await expect(fold(page, "fail").locator(".code", has_text="Traceback")).to_be_visible()
        await page.goto(f"{made.url}/runs")
        await expect(page.locator("[data-run]")).to_contain_text("No more.")
        await unharmed(page)
        assert await page.locator("main script, main img").count() == 0


@pytest.mark.parametrize("place", ["runs", "threads"])
async def test_a_failed_run_is_retried(context: BrowserContext, place: str) -> None:
    def answer(_: object) -> dict[str, Any]:
        answers.append(1)
        return (
            {"fail": "refused", "message": "No credit."} if len(answers) == 1 else {"text": "Paid, thanks."}
        )

    answers: list[int] = []
    async with house(tw.App(agents=[cook()]), model=FunctionModel(answer)) as made:
        run = await ran(made.rt, "cook", "Cook", user_id=await made.person("ada"))
        path = {"runs": f"/runs/{run.id}", "threads": f"/threads/{run.thread_id}"}[place]
        page = await made.enter(context, path, person="ada")
        await page.get_by_role("button", name="Retry the run").click()
        await expect(page.get_by_text("Paid, thanks.").first).to_be_visible()
        await expect(page.get_by_role("button", name="Retry the run")).to_have_count(0)
        await expect(page.get_by_role("alert").filter(has_text="No credit.")).to_have_count(0)


async def test_where_the_code_failed_is_for_services_alone(context: BrowserContext) -> None:
    turns: list[Any] = [{"calls": [{"name": "fail", "args": {}}]}, {"text": "Sorry."}]
    async with house(tw.App(agents=[cook()]), model=ScriptedModel(turns)) as made:
        run = await ran(made.rt, "cook", "Cook", user_id=await made.person("ada"))
        page = await made.enter(context, f"/runs/{run.id}", person="ada")
        for path in (f"/runs/{run.id}", f"/threads/{run.thread_id}"):
            await page.goto(f"{made.url}{path}")
            await fold(page, "fail").locator("summary").click()
            await expect(fold(page, "fail").locator(".error")).to_contain_text("The oven is cold.")
            await expect(page.get_by_text("Traceback")).to_have_count(0)


async def test_a_run_of_many_steps_shows_the_newest_page_first(context: BrowserContext) -> None:
    turns: list[Any] = [{"calls": [{"name": "count", "args": {"number": number}}]} for number in range(1, 60)]
    async with house(tw.App(agents=[cook()]), model=ScriptedModel([*turns, {"text": "Done."}])) as made:
        run = await ran(made.rt, "cook", "Count")
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(step(page, 60)).to_contain_text("Done.")
        await expect(page.locator(".step")).to_have_count(20)
        await page.get_by_role("button", name="Earlier steps (40)").click()
        await expect(page.locator(".step")).to_have_count(40)
        await page.get_by_role("button", name="Earlier steps (20)").click()
        await expect(page.locator(".step h3")).to_have_text([f"Step {number}" for number in range(1, 61)])
        await expect(page.locator(".fold.complete")).to_have_count(59)
        await expect(page.get_by_role("button", name="Earlier steps")).to_have_count(0)


async def test_a_step_of_many_calls_shows_some_and_more_when_asked(context: BrowserContext) -> None:
    calls = [{"name": "count", "args": {"number": number}} for number in range(500)]
    async with house(
        tw.App(agents=[cook()]), model=ScriptedModel([{"calls": calls}, {"text": "Done."}])
    ) as made:
        run = await ran(made.rt, "cook", "Count")
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(page.locator(".fold")).to_have_count(50)
        await page.get_by_role("button", name="450 more calls").click()
        await expect(page.locator(".fold")).to_have_count(100)
        await expect(page.locator(".fold .gist").last).to_have_text("number: 99")


async def test_a_call_tells_how_far_it_is_and_who_answers_it(context: BrowserContext) -> None:
    halfway, go_on = asyncio.Event(), asyncio.Event()

    @tw.tool(description="Bakes.")
    async def bake(state: tw.ThreadState) -> str:
        await go_on.wait()
        state.progress(1, 2, "half baked")
        await halfway.wait()
        return "Bread."

    ask = tw.Tool.from_config(
        {
            "name": "taste",
            "description": "Asks.",
            "inputSchema": {"type": "object"},
            "executionType": "external",
        }
    )
    turns: list[Any] = [
        {"calls": [{"name": "bake", "args": {}}, {"name": "taste", "args": {}}]},
        {"text": "Done."},
    ]
    async with house(tw.App(agents=[cook(bake, ask)]), model=ScriptedModel(turns)) as made:
        run = await send_to(made.rt, "cook", "Bake")
        page = await made.enter(context, f"/runs/{run.id}")
        await expect(fold(page, "bake")).to_contain_text("running")
        go_on.set()
        await expect(fold(page, "bake")).to_contain_text("half baked · 1 of 2")
        halfway.set()
        await expect(fold(page, "taste")).to_contain_text("waiting")
        await expect(page.get_by_role("link", name="Answer in Pending")).to_be_visible()
        [call] = await made.rt.calls.list()
        await made.rt.calls.submit(run.id, call.id, "Good.")
        await expect(page.locator("h1 + .badge")).to_have_text("completed")
        await expect(page.get_by_role("link", name="Answer in Pending")).to_have_count(0)
        await expect(fold(page, "taste")).to_contain_text("done")


async def test_a_missing_value_is_given_where_the_run_waits_for_it(context: BrowserContext) -> None:
    @tw.tool(description="Buys.", variables=[tw.Variable(name="SHOP_KEY", description="The shop's key.")])
    async def buy(state: tw.ThreadState) -> str:
        return "bought"

    turns: list[Any] = [{"calls": [{"name": "buy", "args": {}}]}, {"text": "Bought."}]
    async with house(tw.App(agents=[cook(buy)]), model=ScriptedModel(turns)) as made:
        run = await send_to(made.rt, "cook", "Buy")
        page = await made.enter(context, f"/runs/{run.id}")
        await page.get_by_label("SHOP_KEY").fill("the-key-of-the-shop")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("h1 + .badge")).to_have_text("completed")
        await expect(page.get_by_label("SHOP_KEY")).to_have_count(0)
        assert "the-key-of-the-shop" not in await page.content()


async def test_people_see_runs_of_their_threads_and_the_status_of_those_they_caused(
    context: BrowserContext,
) -> None:
    talker = tw.Agent("talker", tw.Prompt("talker", "You talk."), toolkits=["spaces"])
    model = ScriptedModel([{"text": "The secret of the house."}])
    async with house(tw.App(agents=[talker]), model=model) as made:
        ada = await made.person("ada")
        agent = made.rt.agents.declared[0]
        await made.rt.spaces.create("Kitchen", id="kitchen", members=[ada, agent.id])
        spoken = await made.rt.spaces.say("kitchen", ada, "Hello")
        [run_id] = spoken.runs.values()
        caused = await made.rt.runs.wait(run_id)
        foreign = await ran(made.rt, "talker", "Hi")
        page = await made.enter(context, f"/runs/{caused.id}", person="ada")
        await expect(page.locator(".card .badge")).to_have_text(caused.status)
        await expect(page.get_by_text("The secret of the house.")).to_have_count(0)
        await expect(page.get_by_role("heading", name="Timeline")).to_have_count(0)
        for path, words in (
            (f"/runs/{foreign.id}", "There is no run"),
            ("/runs", "sign in with a secret key"),
        ):
            await page.goto(f"{made.url}{path}")
            await expect(page.get_by_text(words)).to_be_visible()


async def test_runs_are_listed_live_by_pages_and_by_what_they_are_asked_for(context: BrowserContext) -> None:
    gate = Gate()
    turns: list[Any] = [{"when": "slow", "text": "At last.", "delay": 1}, {"text": "Yes."}]
    async with house(tw.App(agents=[cook()]), model=ScriptedModel(turns, sleep=gate.sleep)) as made:
        thread = await made.rt.threads.create("cook")
        for _ in range(51):
            await made.rt.runs.wait((await made.rt.threads.send(thread.id, "Go")).id)
        page = await made.enter(context, "/runs")
        await expect(page.locator("[data-run]")).to_have_count(50)
        slow = await made.rt.threads.send(thread.id, "slow")
        first = page.locator("[data-run]").first
        await expect(first).to_have_attribute("data-run", slow.id)
        await expect(first.locator(".badge")).to_have_text("running")
        gate.open(100)
        await expect(first.locator(".badge")).to_have_text("completed")
        await page.get_by_role("link", name="Older").click()
        await expect(page.locator("[data-run]")).to_have_count(2)
        other = await made.rt.threads.create("cook")
        await made.rt.threads.send(other.id, "Go")
        await page.get_by_label("Thread", exact=True).fill(other.id)
        await page.get_by_label("Thread", exact=True).press("Enter")
        await expect(page).to_have_url(f"{made.url}/runs?thread={other.id}")
        await expect(page.locator("[data-run]")).to_have_count(1)
        await page.goto(f"{made.url}/runs?status=failed")
        await expect(page.get_by_text("No matching runs.")).to_be_visible()


async def test_a_run_fits_a_phone(context: BrowserContext) -> None:
    long = "x" * 400
    turns: list[Any] = [
        {"text": long, "calls": [{"name": long[:60], "args": {"text": long}}]},
        {"text": "Done."},
    ]
    async with house(tw.App(agents=[cook()]), model=ScriptedModel(turns)) as made:
        run = await ran(made.rt, "cook", long)
        page = await made.enter(context, f"/runs/{run.id}")
        await page.set_viewport_size({"width": 390, "height": 800})
        await page.locator(".fold > summary").click()
        await expect(page.locator(".fold .inside .code")).to_have_count(1)
        await no_overflow(page)
        await page.goto(f"{made.url}/runs")
        await expect(page.locator("[data-run]")).to_have_count(1)
        await no_overflow(page)


async def test_the_nodes_of_a_cluster_are_shown_as_they_are(context: BrowserContext) -> None:
    async with house(tw.App()) as made:
        page = await made.enter(context, "/runs")
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        await expect(page.get_by_role("link", name="Nodes")).to_have_count(0)
        now = datetime.now(UTC)
        found = [
            Node(
                id="node_a",
                version="1.0",
                slots=1_000,
                busy=7,
                seen=now + timedelta(hours=1),
                skew=-30_000_000,
                address="host",
            ),
            Node(id="node_b", version="1.1", slots=1_000, busy=0, seen=now - timedelta(minutes=2)),
        ]

        async def nodes() -> Sequence[Node]:
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(made.rt._store, "nodes", nodes)  # pyright: ignore[reportPrivateUsage]  # as in a cluster
            await page.reload()
            await page.get_by_role("link", name="Nodes").click()
            row = page.locator("tr", has_text="node_a")
            await expect(row.locator("td")).to_have_text(
                ["node_a", "1.0", "7", "1000", "-30.000 s", "0.0 s ago", "living", "host"]
            )
            await expect(page.locator("tr", has_text="node_b").locator("td.bad")).to_have_text("dead")
            await expect(
                page.get_by_text("The oldest unclaimed wake-up has been due for 0.0 s.")
            ).to_be_visible()
            found[0] = replace(found[0], busy=8)
            await expect(row.locator("td").nth(2)).to_have_text("8")
            found.clear()
            await expect(page.get_by_text("This database has no cluster.")).to_be_visible()
        await made.person("ada")
        page = await made.enter(context, "/nodes", person="ada")
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
