"""Agents in the console: their definition, data and pending calls, and the actions of a service."""

import json
from collections.abc import AsyncGenerator, Sequence

import pytest
from playwright.async_api import BrowserContext, Page, expect

import toolwright as tw
from tests.browser.console.rig import House, house
from toolwright.core.agents.mind import GoalChange
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse, ToolDefinition
from toolwright.core.schemas.provider_forms import ToolError
from toolwright.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.browser]
HOSTILE = "<img src=x onerror=window.hurt=1> {{ window.hurt=1 }}"


@tw.tool(description="Search the archive.", read_only=True)
async def search(query: str) -> str:
    return f"found {query}"


class Careless:
    """A model whose output is invalid while `fails` is set."""

    name = "careless"
    fails = True

    async def respond(self, _: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ModelResponse(text="no JSON" if self.fails else '{"read": true}')


def app() -> tw.App:
    concierge = tw.Agent(
        "concierge",
        instructions="You help guests.",
        model="openai:gpt-6.1-terra",
        tools=["search"],
        toolkits=["mind", "spaces"],
        env={"HOUSE_KEY": "of-the-cellar"},
    )
    read = {"type": "object", "properties": {"read": {"type": "boolean"}}, "required": ["read"]}
    porter = tw.Agent("porter", instructions="You carry.", output=read)
    return tw.App(tools=[search], agents=[concierge, porter])


async def page_of(made: House, context: BrowserContext, tab: str = "", agent: str = "concierge") -> Page:
    """Open the page of that agent."""
    agent_id = (await made.rt.agents.get(agent)).id
    return await made.enter(context, f"/agents/{agent_id}{tab and f'?tab={tab}'}")


async def test_the_list_says_where_an_agent_is_declared_and_is_narrowed_by_text(
    context: BrowserContext,
) -> None:
    async with house(app()) as made:
        await made.rt.agents.save("poet", {"agent": {"system": "You rhyme."}}, "Writes poems.")
        page = await made.enter(context, "/agents")
        rows = page.locator(".list > .item")
        await expect(rows).to_have_count(3)
        await expect(rows.filter(has_text="concierge")).to_contain_text("in the app's code")
        await expect(rows.filter(has_text="concierge")).to_contain_text(
            "openai:gpt-6.1-terra · 1 tool · mind · spaces"
        )
        await page.get_by_label("Filter").fill("poem")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("configured")
        await rows.get_by_role("link", name="poet").click()
        await expect(page.get_by_role("heading", name="poet", exact=True)).to_be_visible()


async def test_the_configuration_shows_tools_and_names_of_values_and_never_a_value(
    context: BrowserContext,
) -> None:
    async with house(app()) as made:
        page = await page_of(made, context)
        await expect(page.get_by_text("You help guests.")).to_be_visible()
        await expect(page.get_by_role("link", name="search")).to_be_visible()
        await expect(page.get_by_role("link", name="set_goals")).to_be_visible()
        await expect(page.get_by_text("HOUSE_KEY · secret")).to_be_visible()
        await expect(page.get_by_text("change it in the app's code")).to_be_visible()
        await expect(page.get_by_role("button", name="Save configuration")).to_have_count(0)
        assert "of-the-cellar" not in await page.content()


async def test_a_block_is_edited_and_shared_with_another_agent(context: BrowserContext) -> None:
    async with house(app()) as made:
        await made.rt.blocks.write("concierge", "house", "Rooms 1 to 12.")
        page = await page_of(made, context, "memory")
        await page.get_by_role("button", name="Edit house").click()
        await page.get_by_role("dialog").get_by_label("Content").fill("Rooms 1 to 14.")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".item", has_text="house")).to_contain_text("Rooms 1 to 14.")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.get_by_role("button", name="Share with an agent").click()
        await page.get_by_role("dialog").get_by_label("Agent, by name or id").fill("porter")
        await page.get_by_role("button", name="Share", exact=True).click()
        await expect(page.locator(".item", has_text="house")).to_contain_text("shared")
        [block] = await made.rt.blocks.list("porter")
        assert block.content == "Rooms 1 to 14."


async def test_a_passage_is_added_found_and_taken_away(context: BrowserContext) -> None:
    async with house(app()) as made:
        for n in range(30):
            await made.rt.passages.add("concierge", f"Guest {n} wanted tea.")
        page = await page_of(made, context, "memory")
        await page.get_by_role("button", name="New passage").click()
        await page.get_by_role("dialog").get_by_label("Content").fill("Ada wants a quiet room.")
        await page.get_by_role("dialog").get_by_label("Tags").fill("ada\nrooms")
        await page.get_by_role("button", name="Save").click()
        rows = page.locator(".list > .item")
        await expect(rows.first).to_contain_text("Ada wants a quiet room.")
        await expect(rows).to_have_count(25)
        await page.get_by_role("button", name="More").click()
        await expect(rows).to_have_count(6)
        await page.get_by_label("Search passages").fill("quiet")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text("rooms")
        await rows.get_by_role("button", name="Delete this passage").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("Nothing found")).to_be_visible()
        assert len(await made.rt.passages.list("concierge", 100)) == 30


async def test_goals_memories_and_plans_are_set_and_what_is_invalid_says_why(context: BrowserContext) -> None:
    async with house(app()) as made:
        await made.rt.minds.set_goals("concierge", [GoalChange(description="Please everybody")])
        page = await page_of(made, context, "mind")
        await page.get_by_role("button", name="Edit this goal").click()
        await page.get_by_role("dialog").get_by_label("Status").fill("done")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".badge", has_text="done")).to_be_visible()
        await page.get_by_role("button", name="New memory").click()
        await page.get_by_role("dialog").get_by_label("Key").fill("wifi")
        await page.get_by_role("dialog").get_by_label("Value").fill("guest-1234")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_text("guest-1234")).to_be_visible()
        await page.get_by_role("link", name="Plans").click()
        await page.get_by_role("button", name="New plan").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("Morning")
        await page.get_by_role("dialog").get_by_label("Instruction to the agent").fill("Greet all.")
        await page.get_by_role("dialog").get_by_label("Repeatedly").fill("every day")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("alert").filter(has_text="every day")).to_be_visible()
        await page.get_by_role("dialog").get_by_label("Repeatedly").fill("0 9 * * *")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".list")).to_contain_text("0 9 * * * UTC")
        [plan] = await made.rt.minds.plans("concierge")
        assert (plan.name, plan.cron) == ("Morning", "0 9 * * *")


async def test_a_failed_event_is_tried_again_and_its_status_is_followed(context: BrowserContext) -> None:
    model = Careless()
    async with house(app(), model=model) as made:
        page = await page_of(made, context, "inbox", "porter")
        await expect(page.get_by_text("No events")).to_be_visible()
        await made.rt.inboxes.trigger("porter", "till", {"table": 7})
        row = page.locator(".list > .item")
        await expect(row).to_contain_text("failed")
        await row.get_by_text("Data").click()
        await expect(row).to_contain_text('"table": 7')
        model.fails = False
        await row.get_by_role("button", name="Retry").click()
        await expect(row).to_contain_text("processed")
        await expect(row.get_by_role("button", name="Retry")).to_have_count(0)


async def test_a_service_wakes_an_agent_with_a_payload(context: BrowserContext) -> None:
    async with house(app(), model=ScriptedModel([{"text": "Read."}])) as made:
        page = await page_of(made, context)
        await page.get_by_role("button", name="Trigger").click()
        await page.get_by_role("dialog").get_by_label("Service").fill("till")
        await page.get_by_role("dialog").get_by_label("Payload").fill('{"table": 7}')
        await page.get_by_role("dialog").get_by_role("button", name="Trigger").click()
        await expect(page.get_by_text("Triggered.")).to_be_visible()
        await page.get_by_role("link", name="Inbox").click()
        await page.get_by_text("Data").click()
        await expect(page.locator(".folded")).to_contain_text('"table": 7')


async def test_an_invalid_configuration_shows_its_paths_and_changes_nothing(context: BrowserContext) -> None:
    async with house(app()) as made:
        config: JSONObject = {
            "agent": {"system": "You rhyme."},
            "model": "openai:gpt-6.1-terra",
            "env": {"TONE_OF_VOICE": "gloomy-dark"},
        }
        await made.rt.agents.save("poet", config)
        page = await page_of(made, context, agent="poet")
        editor = page.get_by_label("Configuration as JSON")
        written = await editor.input_value()
        assert "gloomy-dark" not in written
        await editor.fill(json.dumps({"agent": {"system": 7}, "tools": [{"name": 3}]}))
        await page.get_by_role("button", name="Save configuration").press("Enter")
        await expect(page.get_by_role("alert").filter(has_text="config.agent.system")).to_be_visible()
        await page.get_by_role("button", name="Dismiss").click()
        await editor.fill("{")
        await page.get_by_role("button", name="Save configuration").press("Enter")
        await expect(page.get_by_role("alert").filter(has_text="is not JSON")).to_be_visible()
        poet = await made.rt.agents.show("poet")
        assert poet.config == json.loads(written)


async def test_a_saved_configuration_keeps_the_values_that_are_not_shown(context: BrowserContext) -> None:
    async with house(app()) as made:
        tools: list[JSON] = [{"name": "search", "env": {"INDEX_KEY": "tool-secret-1"}}]
        env: JSONObject = {"TONE_KEY": "agent-secret-1"}
        config: JSONObject = {"agent": {"system": "You rhyme."}, "tools": tools, "env": env}
        await made.rt.agents.save("poet", config)
        page = await page_of(made, context, agent="poet")
        editor = page.get_by_label("Configuration as JSON")
        await editor.fill((await editor.input_value()).replace("You rhyme.", "You rhyme well."))
        await page.get_by_role("button", name="Save configuration").press("Enter")
        await expect(page.get_by_text("Saved. The next run uses it.")).to_be_visible()
        active = await made.rt.agents.active("poet")
        assert active.system == "You rhyme well."
        values = {name: var.value for layer in active.env for name, var in layer.items()}
        assert values["TONE_KEY"] == "agent-secret-1"
        assert active.tool_env["search"]["INDEX_KEY"].value == "tool-secret-1"


async def test_an_agent_is_configured_and_deleted_here(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await made.enter(context, "/agents")
        await page.get_by_role("button", name="New agent").click()
        await page.get_by_role("dialog").get_by_label("Name").fill("poet")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("heading", name="poet", exact=True)).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="Agents")).to_be_visible()
        await expect(page.locator(".list > .item")).to_have_count(2)
        assert [each.name for each in await made.rt.agents.list()] == ["concierge", "porter"]


class Picky(Careless):
    """A model that is not offered every tool."""

    def tool_faults(self, tools: tuple[ToolDefinition, ...]) -> Sequence[ToolError]:
        return [
            ToolError(tool=tool.name, message="Its form is refused.")
            for tool in tools
            if tool.name == "search"
        ]


async def test_tools_that_a_model_is_not_offered_are_named(context: BrowserContext) -> None:
    reader = tw.Agent("reader", instructions="You read.", model=Picky(), tools=["search"])
    async with house(tw.App(tools=[search], agents=[reader])) as made:
        page = await page_of(made, context, agent="reader")
        await expect(page.get_by_text("The tool search: Its form is refused.")).to_be_visible()


async def test_a_server_that_is_down_is_reported_with_its_error(context: BrowserContext) -> None:
    servers = {"library": {"url": "http://127.0.0.1:9/mcp"}}
    reader = tw.Agent("reader", instructions="You read.", mcp=servers)
    async with house(tw.App(agents=[reader])) as made:
        page = await page_of(made, context, agent="reader")
        card = page.locator(".card", has_text="library")
        await expect(card.locator(".badge")).to_have_text("down")
        await expect(card.locator(".error")).to_be_visible()


async def test_a_thread_with_the_agent_is_begun(context: BrowserContext) -> None:
    async with house(app()) as made:
        page = await page_of(made, context)
        await page.get_by_role("button", name="Talk").click()
        await page.wait_for_url("**/threads/thr_*")
        [thread] = await made.rt.threads.list()
        assert page.url.endswith(thread.id)


async def test_the_prompt_is_shown_as_if_the_agent_were_in_a_space(context: BrowserContext) -> None:
    async with house(app()) as made:
        await made.rt.spaces.create("Lobby", id="lobby")
        await made.rt.spaces.add_member("lobby", "concierge")
        page = await page_of(made, context, "prompt")
        await expect(page.locator(".code").first).to_contain_text("You help guests.")
        await page.get_by_label("Preview in").click()
        await page.get_by_role("option", name="Lobby").click()
        await expect(page.locator("#view")).to_contain_text("lobby")


async def test_hostile_names_and_texts_of_agents_run_nothing(context: BrowserContext) -> None:
    agent = tw.Agent(HOSTILE, description=HOSTILE, instructions=HOSTILE, env={HOSTILE: "a-secret-value"})
    async with house(tw.App(agents=[agent])) as made:
        await made.rt.blocks.write(HOSTILE, HOSTILE, HOSTILE)
        await made.rt.passages.add(HOSTILE, HOSTILE, [HOSTILE])
        await made.rt.minds.set_goals(HOSTILE, [GoalChange(description=HOSTILE, status=HOSTILE)])
        page = await made.enter(context, "/agents")
        for tab in ("configuration", "prompt", "memory", "mind", "plans", "inbox"):
            await page.goto(f"{made.url}/agents/{(await made.rt.agents.get(HOSTILE)).id}?tab={tab}")
            await expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
            await expect(page.locator("#view img")).to_have_count(0)
        assert await page.evaluate("window.hurt") is None


@pytest.mark.parametrize("path", ["/agents", "/tools", "/people", "/tools/search", "/agents/concierge"])
async def test_a_person_gets_none_of_these_views(context: BrowserContext, path: str) -> None:
    async with house(app()) as made:
        await made.person("ada")
        page = await made.enter(context, path, person="ada")
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        await expect(page.locator("#view")).not_to_contain_text("concierge")


async def test_what_an_agent_keeps_for_a_person_is_shown_under_their_name(context: BrowserContext) -> None:
    async with house(app()) as made:
        ada = await made.rt.entities.create(external_id="ada-7", display_name=f"Ada {HOSTILE}")
        await made.rt.minds.set_goals("concierge", [GoalChange(description="Own goal")])
        page = await page_of(made, context)
        await expect(page.get_by_text("members of a space with the agent")).to_be_visible()
        page = await page_of(made, context, "mind")
        await expect(page.get_by_role("navigation", name="Owner")).to_have_count(0)
        await made.rt.minds.set_goals("concierge", [GoalChange(description="Her goal")], user_id=ada.id)
        await page.reload()
        owners = page.get_by_role("navigation", name="Owner")
        await expect(page.get_by_text("Own goal")).to_be_visible()
        await expect(page.get_by_text("Her goal")).to_have_count(0)
        await owners.get_by_role("link", name="Ada").click()
        await expect(page.get_by_text("Her goal")).to_be_visible()
        await expect(page.get_by_text("Own goal")).to_have_count(0)
        await page.get_by_role("button", name="Delete this goal").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("Her goal")).to_have_count(0)
        assert list(await made.rt.minds.goals("concierge", user_id=ada.id)) == []
        assert len(await made.rt.minds.goals("concierge")) == 1
        assert await page.evaluate("window.hurt") is None
