"""Approvals of calls of every kind: nested calls, prompts and agents, in spaces, external calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.kit import Watched, call, calls
from tests.printed import GREET, SUMMARY
from tests.runtime.approving import Ledger, paying
from tests.runtime.family_rig import worker
from tests.runtime.solving import DONE, TEXT, greet, greeting, said
from tests.runtime.talk import Talk, says, talking
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.call import Call
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio


async def waiting(rt: Runtime) -> Call:
    """Return the call that waits for an approval, once there is one."""
    async with asyncio.timeout(20):
        while True:
            for each in await rt.calls.list():
                if each.awaits_approval:
                    return each
            await asyncio.sleep(0)


async def answered(talk: Talk, answer: JSONObject) -> Call:
    """Send a message, and answer the call that then waits. Return that call after the run has finished."""
    saying = asyncio.create_task(talk.say())
    asked = await waiting(talk.rt)
    await talk.rt.calls.submit(asked.run_id, asked.id, answer)
    await saying
    return await talk.rt.calls.get(asked.id)


def app(*tools: Any, model: object = None, prompts: tuple[tw.Prompt, ...] = ()) -> tw.App:
    asked = model or Watched([call("caller"), {"text": "Done."}])
    return tw.App(
        agents=[tw.Agent("boss", tw.Prompt("main", tools=list(tools), model=asked))], prompts=prompts
    )


@tw.tool(name="caller", timeout=0.2)
async def caller(state: tw.ThreadState) -> JSON:
    """Call."""
    paid = await state.invoke_tool("pay", {"to": "Ann", "amount": 5})
    return paid.result if paid.status == "success" else f"{paid.error} ({paid.error_code})"


@pytest.mark.idle_clock
async def test_the_timeout_of_a_handler_stops_while_a_person_decides_on_its_call() -> None:
    ledger = Ledger()
    async with talking(app(caller, ledger.tool), "boss") as talk:
        saying = asyncio.create_task(talk.say())
        asked = await waiting(talk.rt)
        await asyncio.sleep(5)
        assert (asked.parent_id is not None, asked.expires_at is not None) == (True, True)
        await talk.rt.calls.submit(asked.run_id, asked.id, {"approved": True})
        await saying
        assert await talk.results() == ["Paid 5 to Ann"]
        assert ledger.paid == [("Ann", 5)]


async def test_a_handler_reads_that_its_call_was_not_approved() -> None:
    ledger = Ledger()
    async with talking(app(caller, ledger.tool), "boss") as talk:
        asked = await answered(talk, {"approved": False, "reason": "no"})
        assert asked.status == "resolved"
        assert await talk.results() == ["The call was not approved: no (not_approved)"]
        assert ledger.paid == []


async def test_a_handler_whose_arguments_need_no_approval_asks_for_none() -> None:
    ledger = Ledger(lambda arguments: arguments["to"] != "Ann")
    async with talking(app(caller, ledger.tool), "boss") as talk:
        await talk.say()
        assert await talk.results() == ["Paid 5 to Ann"]


async def test_a_cancel_takes_back_what_a_handler_waits_for() -> None:
    ledger = Ledger()
    async with talking(app(caller, ledger.tool), "boss") as talk:
        saying = asyncio.create_task(talk.say())
        asked = await waiting(talk.rt)
        await talk.rt.runs.cancel(asked.run_id)
        run = await saying
        assert (run.status, (await talk.rt.calls.get(asked.id)).status) == ("cancelled", "cancelled")
        assert ledger.paid == []


async def test_the_calls_of_a_prompt_tool_park_the_run() -> None:
    ledger = Ledger()
    sums = tw.Prompt(
        "sums",
        tool_description="Sums.",
        expose_as_tool=True,
        model=Watched([{"calls": [paying()]}, {"text": "Three."}]),
        tools=[ledger.tool],
    )
    model = Watched([call("sums", message="Sum."), {"text": "Done."}])
    async with talking(app("sums", model=model, prompts=(sums,)), "boss") as talk:
        asked = await answered(talk, {"approved": True})
        assert (asked.status, asked.parent_id is not None) == ("done", True)
        assert ledger.paid == [("Ann", 5)]


@pytest.mark.parametrize("requirement", [True, {"by": "anyone", "expiresIn": 60_000}])
async def test_a_prompt_can_be_behind_an_approval(requirement: object) -> None:
    below = says("Three.")
    sums = tw.Prompt("sums", tool_description="Sums.", expose_as_tool=True, model=below)
    model = Watched([call("sums", message="Sum."), {"text": "Done."}])
    config = {"name": "sums", "requiresApproval": requirement}
    async with talking(app(config, model=model, prompts=(sums,)), "boss") as talk:
        saying = asyncio.create_task(talk.say())
        asked = await waiting(talk.rt)
        assert below.requests == []
        await talk.rt.calls.submit(asked.run_id, asked.id, {"approved": True, "args": {"message": "Go."}})
        await saying
        assert (await talk.results())[0].startswith("Three.")
        assert below.requests[0].messages[-1].content == "Go."


@pytest.mark.parametrize("approved", [True, False])
async def test_an_agent_can_be_behind_an_approval_and_has_no_thread_before_it(approved: bool) -> None:
    child = worker([{"text": "Worked."}])
    model = Watched([call("worker", message="Work."), {"text": "Done."}])
    config = tw.SubagentToolConfig(name="worker", requires_approval=True)
    boss = tw.Agent("boss", tw.Prompt("main", tools=[config], model=model))
    async with talking(tw.App(agents=[boss, child]), "boss") as talk:
        saying = asyncio.create_task(talk.say())
        asked = await waiting(talk.rt)
        assert len(await talk.rt.threads.list()) == 1
        await talk.rt.calls.submit(asked.run_id, asked.id, {"approved": approved})
        assert (await saying).output == "Done."
        assert len(await talk.rt.threads.list()) == (2 if approved else 1)
        assert ("Worked." in (await talk.results())[0]) == approved


async def test_an_agent_that_lives_on_needs_no_approval_of_its_own() -> None:
    config: dict[str, JSON] = {"name": "worker", "resumable": {}, "requiresApproval": True}
    boss = tw.Agent("boss", tw.Prompt("main", tools=[config], model=says("x")))
    with pytest.raises(DefinitionError, match="resumable"):
        tw.App(agents=[boss, worker([])]).catalog.active(boss.id)


async def test_an_invalid_requirement_of_a_prompt_tool_is_named() -> None:
    with pytest.raises(DefinitionError, match="by must be"):
        tw.SubpromptConfig.model_validate({"name": "sums", "requiresApproval": {"by": "nobody"}})


async def test_a_handler_of_a_loop_of_ones_own_waits_for_it() -> None:
    ledger = Ledger()
    made = app(ledger.tool, model=says("never"))
    async with journals.runtime(made) as rt:
        toolkit = await rt.toolkit(made.catalog.agent("boss").id)
        paid = asyncio.ensure_future(toolkit.handlers["pay"]({"to": "Ann", "amount": 5}))
        asked = await waiting(rt)
        await rt.calls.submit(asked.run_id, asked.id, {"approved": True})
        assert await paid == {"content": [{"type": "text", "text": "Paid 5 to Ann"}]}


async def test_a_call_of_an_mcp_host_waits_for_it() -> None:
    ledger = Ledger()
    async with journals.runtime(tw.App(tools=[ledger.tool])) as rt:
        made = rt.app_calls.new()
        with rt.app_calls.watch(made) as watch:
            await rt.app_calls.make(made, "pay", {"to": "Ann", "amount": 5})
            asked = await waiting(rt)
            assert asked.id == made.id
            await rt.calls.submit(asked.run_id, asked.id, {"approved": True})
            while (row := await watch.row()) is None or row.status != "done":
                await watch.next(1.0)
        assert ledger.paid == [("Ann", 5)]


Answer = Callable[[Runtime, Call], Awaitable[object]]


async def approve(rt: Runtime, asked: Call) -> object:
    answer: JSONObject = {"approved": True, "args": {"to": "Bob", "amount": 1}}
    return await rt.calls.submit(asked.run_id, asked.id, answer)


async def refuse(rt: Runtime, asked: Call) -> object:
    return await rt.calls.submit(asked.run_id, asked.id, {"approved": False})


async def cancel(rt: Runtime, asked: Call) -> object:
    return await rt.runs.cancel(asked.run_id)


@pytest.mark.parametrize(("answer", "ends"), [(approve, "complete"), (refuse, "error"), (cancel, "error")])
async def test_a_visible_call_asks_in_its_space(answer: Answer, ends: str) -> None:
    ledger = Ledger(visible=True)
    turns = [call("enter_space", spaceId="tea"), {"calls": [paying()]}, {"text": "Done."}]
    prompt = tw.Prompt("main", tools=[ledger.tool], model=Watched(turns))
    agent = tw.Agent("boss", prompt, toolkits=["spaces"])
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        ann = await rt.entities.create(external_id="ann")
        own = await rt.agents.get("boss")
        space = await rt.spaces.create("Tea", id="tea", members=[ann.id, own.entity_id])
        await rt.spaces.say(space.id, ann.id, "Go")
        asked = await waiting(rt)
        shown = (await rt.spaces.messages(space.id))[-1].message
        assert asked.space_id == space.id
        assert (shown.metadata["status"], shown.metadata["approval"]) == ("requires_action", True)
        assert shown.metadata["args"] == {"to": "Ann", "amount": 5}
        await answer(rt, asked)
        await rt.runs.wait(asked.run_id, 20)
        messages = [each.message for each in await rt.spaces.messages(space.id)]
        [after] = [each for each in messages if each.metadata.get("toolCallId") == asked.id]
        assert (after.id, after.metadata["status"], "approval" in after.metadata) == (shown.id, ends, False)
        changed = {"to": "Bob", "amount": 1} if answer is approve else shown.metadata["args"]
        assert after.metadata["args"] == changed


@pytest.mark.parametrize("what", ["space", "message", "membership"])
async def test_a_visible_call_outlives_its_message(what: str) -> None:
    ledger = Ledger(visible=True)
    turns = [call("enter_space", spaceId="tea"), {"calls": [paying()]}, {"text": "Done."}]
    prompt = tw.Prompt("main", tools=[ledger.tool], model=Watched(turns))
    async with journals.runtime(tw.App(agents=[tw.Agent("boss", prompt, toolkits=["spaces"])])) as rt:
        ann = await rt.entities.create(external_id="ann")
        own = await rt.agents.get("boss")
        await rt.spaces.create("Tea", id="tea", members=[ann.id, own.entity_id])
        await rt.spaces.say("tea", ann.id, "Go")
        asked = await waiting(rt)
        if what == "space":
            await rt.spaces.delete("tea")
        elif what == "message":
            await rt.spaces.erase((await rt.spaces.messages("tea"))[-1].message.id)
        else:
            await rt.spaces.remove_member("tea", own.entity_id)
        await rt.calls.submit(asked.run_id, asked.id, {"approved": True})
        run = await rt.runs.wait(asked.run_id, 20)
        assert (run.status, ledger.paid) == ("completed", [("Ann", 5)])


async def test_several_kinds_of_one_answer_are_asked_for_in_their_order() -> None:
    ledger = Ledger()
    quick = tw.Tool.from_config(
        {
            "name": "note",
            "description": "Note.",
            "inputSchema": {"type": "object"},
            "executionType": "internal",
        }
    )
    model = Watched([calls(call("note"), {"calls": [paying()]}, call("note")), {"text": "Done."}])
    async with talking(app(ledger.tool, quick, model=model), "boss") as talk:
        await answered(talk, {"approved": False})
        assert [name for _, name, _ in await talk.made()] == ["note", "pay", "note"]
        assert [status for _, _, status in await talk.made()] == ["done", "resolved", "done"]


async def test_a_call_of_a_composed_request_waits_for_it() -> None:
    ledger = Ledger()
    asked_for: JSON = {"_tool": "pay", "to": "Ann", "amount": 5}
    model = Watched([said(None, asked_for), said(DONE)])
    async with journals.runtime(tw.App(tools=[ledger.tool])) as rt:
        solving = asyncio.create_task(
            rt.request({"model": model}, SUMMARY, [{"type": "tool", "tool": "pay"}, TEXT])
        )
        asked = await waiting(rt)
        answer: JSONObject = {"approved": True, "args": {"to": "Bob", "amount": 1}}
        await rt.calls.submit(asked.run_id, asked.id, answer)
        solution = await solving
        [paid] = solution.calls
        assert (paid.args, paid.result is not None and paid.result.result) == (
            {"to": "Bob", "amount": 1},
            "Paid 1 to Bob",
        )
        assert ledger.paid == [("Bob", 1)]


async def test_edited_arguments_of_a_schema_tool_are_validated_when_the_call_begins() -> None:
    model = Watched([said(None, greet("Ann")), said(DONE)])
    schema = tw.Tool.from_schema("greetUser", GREET)
    [tool] = tw.Toolset([schema]).requiring_approval()
    async with journals.runtime(tw.App(tools=[tool], registry=greeting())) as rt:
        solving = asyncio.create_task(
            rt.request({"model": model}, SUMMARY, [{"type": "tool", "tool": "greetUser"}, TEXT])
        )
        asked = await waiting(rt)
        assert (asked.terms or {}).get("schema") is None
        answer: JSONObject = {"approved": True, "args": {"_tool": "greetUser", "userName": 7}}
        await rt.calls.submit(asked.run_id, asked.id, answer)
        [greeted] = (await solving).calls
        assert greeted.result is not None
        assert (greeted.result.status, greeted.result.error_code) == ("error", "invalid_arguments")


async def test_a_run_in_one_call_is_answered_by_its_stream() -> None:
    ledger = Ledger()
    model = Watched([{"calls": [paying()]}, {"text": "Done."}])
    agent = tw.Agent("clerk", instructions="Pay.", model=model, tools=[ledger.tool])
    async with tw.stream(agent, "Go") as stream:
        async for event in stream:
            if isinstance(event, tw.CallWaiting):
                await stream.submit(event.call_id, {"approved": True})
        assert (await stream.result()).output == "Done."
    assert ledger.paid == [("Ann", 5)]
