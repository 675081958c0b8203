"""Who must not approve a call, and who may by a role: `not_by="requester"` and `by=["role:…"]`."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import toolwright as tw
from tests.api.rig import JSON
from tests.api.test_people_and_agents import SERVICE, Crowd, crowd
from tests.api.town import person
from toolwright.core.threads.event import Topic
from toolwright.core.tools.approval import Requirement
from toolwright.testing import FunctionModel

pytestmark = pytest.mark.anyio

SEPARATE = tw.Approval(not_by="requester")
FINANCE = tw.Approval(by=["role:finance", "user-eve"], not_by="requester")
PEOPLE = ("ada", "bob", "eve")


OTHER = "This call requires another person's approval."


def paying(requirement: Requirement = SEPARATE, **options: Any) -> tw.Tool:
    @tw.tool(name="pay", requires_approval=requirement, visible=True, **options)
    async def pay() -> str:
        """Pay money back."""
        return "Paid."

    return pay


def answer(messages: Sequence[tw.Message]) -> JSON:
    last = messages[-1]
    if last.tool_name in ("pay", "helper"):
        return {"text": "Done."}
    return {"calls": [{"name": "pay"}]}


def clerk(*tools: tw.Tool | str, **options: Any) -> tw.Agent:
    prompt = tw.Prompt("clerk", "Pay.", model=FunctionModel(answer), tools=list(tools))
    return tw.Agent("clerk", prompt, open_to="everyone", **options)


def headers(name: str, *roles: str) -> dict[str, str]:
    return person(f"user-{name}", roles=[*roles])


async def spoken(made: Crowd, name: str) -> str:
    """Let a person speak in a room of everybody. Return the id of the clerk's run."""
    everyone = [made.ids[each] for each in PEOPLE]
    await made.rt.spaces.create("Tea", id="tea", members=[*everyone, "clerk"])
    await made.rt.agents.active("clerk")
    said = await made.rt.spaces.say("tea", made.ids[name], "Go")
    return next(iter(said.runs.values()))


async def asked(made: Crowd, run_id: str) -> JSON:
    """Return the call that waits for an approval, as a service reads it."""
    async with asyncio.timeout(30):
        async for _ in made.rt.events.follow(Topic(kind="run", id=run_id), after=0):
            calls = (await made.ask(SERVICE, f"/api/calls?runId={run_id}"))["calls"]
            if calls and calls[0].get("approval"):
                waiting: JSON = calls[0]
                return waiting
    raise AssertionError


async def approve(made: Crowd, call: JSON, who: dict[str, str], status: int = 200) -> str:
    body = {"callId": call["callId"], "result": {"approved": True}}
    return str((await made.ask(who, f"/api/runs/{call['runId']}/tool-results", body, status)).get("error"))


async def test_the_owner_of_a_thread_does_not_approve_what_their_own_message_asks_for() -> None:
    async with crowd(tw.App(agents=[clerk(paying())])) as made:
        thread = (await made.open("ada", "clerk"))["thread"]["id"]
        sent = await made.ask("ada", f"/api/threads/{thread}/messages", {"content": "Go"}, 202)
        call = await asked(made, str(sent["runId"]))
        assert call["approvalTerms"]["notBy"] == [made.ids["ada"]]
        error = await approve(made, call, headers("ada"), 403)
        assert error == "Your message began this run, so another person or a service must approve this call."
        await approve(made, call, SERVICE)
        assert (await made.rt.runs.wait(call["runId"], 10)).output == "Done."


async def test_in_a_space_everyone_but_the_person_who_asked_may_approve() -> None:
    async with crowd(tw.App(agents=[clerk(paying())]), people=PEOPLE) as made:
        call = await asked(made, await spoken(made, "ada"))
        await approve(made, call, headers("ada"), 403)
        await approve(made, call, headers("bob"))
        shown = (await made.ask(headers("eve"), f"/api/calls/{call['callId']}"))["call"]
        assert shown["decision"]["by"]["id"] == made.ids["bob"]


@pytest.mark.parametrize(
    ("who", "error"),
    [
        (headers("ada", "finance"), "Your message began this run, so another person must approve this call."),
        (headers("bob"), OTHER),
        (headers("bob", "sales"), OTHER),
        (person("user-bob", roles="finance"), None),
        (person("user-bob", role=["finance"]), OTHER),  # another claim
        (headers("bob", "sales", "finance"), None),
        (headers("eve"), None),
        (SERVICE, "This call requires a person's approval."),
    ],
)
async def test_people_of_a_role_may_approve(who: dict[str, str], error: str | None) -> None:
    async with crowd(tw.App(agents=[clerk(paying(FINANCE))]), people=PEOPLE) as made:
        call = await asked(made, await spoken(made, "ada"))
        assert call["approvalTerms"]["by"] == ["role:finance", "user-eve"]
        assert await approve(made, call, who, 200 if error is None else 403) == str(error)


async def test_an_external_id_that_looks_like_a_role_has_no_role() -> None:
    async with crowd(tw.App(agents=[clerk(paying(FINANCE))]), people=PEOPLE) as made:
        mallory = await made.rt.entities.create(external_id="role:finance")
        call = await asked(made, await spoken(made, "ada"))
        await made.rt.spaces.add_member("tea", mallory.id)
        await approve(made, call, person("role:finance"), 403)


async def test_a_child_of_a_run_and_a_late_result_have_the_requester_of_the_run_they_come_from() -> None:
    helper = tw.Agent("helper", tw.Prompt("helper", "Pay.", model=FunctionModel(answer), tools=[paying()]))

    def delegating(messages: Sequence[tw.Message]) -> JSON:
        last = messages[-1]
        if "look_up" in last.content:
            return {"calls": [{"name": "helper", "args": {"message": "Pay"}}]}
        return {"text": "Fine."} if last.role == "tool" else {"calls": [{"name": "look_up"}]}

    look_up = tw.Tool(name="look_up", description="Look up.", kind="external", is_async=True, visible=False)
    calls_helper = helper.as_tool("It pays.")
    prompt = tw.Prompt("clerk", "Pay.", model=FunctionModel(delegating), tools=[look_up, calls_helper])
    app = tw.App(agents=[tw.Agent("clerk", prompt, open_to="everyone"), helper])
    async with crowd(app, people=PEOPLE) as made:
        run_id = await spoken(made, "ada")
        await made.rt.runs.wait(run_id, 10)
        [pending] = await made.rt.calls.list(run_id=run_id)
        await made.rt.calls.submit(run_id, pending.id, "look_up says: pay")
        async with asyncio.timeout(30):
            async for event in made.rt.events.follow(Topic(kind="thread", id=pending.thread_id), after=0):
                if event.run_id not in (None, run_id):
                    break
        late = (await made.rt.runs.list(thread_id=pending.thread_id))[0]
        _, wait = await made.rt.runs.wait_for_input(late.id)
        assert wait is not None and wait.call is not None and wait.run_id not in (late.id, run_id)
        assert wait.call.terms is not None and wait.call.terms["notBy"] == [made.ids["ada"]]


async def test_the_terms_are_declared_as_json_and_for_toolsets() -> None:
    config = {
        "name": "pay",
        "description": "Pay.",
        "inputSchema": {"type": "object"},
        "executionType": "external",
        "requiresApproval": {"by": ["role:finance"], "notBy": "requester"},
    }
    expected = tw.Approval(by=("role:finance",), not_by="requester")
    assert tw.Tool.from_config(config).approval == expected
    [tool] = tw.Toolset([paying(None)]).requiring_approval(approval=expected)
    assert tool.approval == expected
