"""Agents in spaces: woken by messages, posting, showing their calls, staying silent (S3, D7, D10, D12, D15)."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.kit import Watched, raising
from tests.runtime.narrow import prompt_of
from toolwright.core.errors import (
    AlreadyExists,
    InvalidConfiguration,
    InvalidRequest,
    NotFound,
    TenvsRequired,
)
from toolwright.core.journal.space_effects import DropSpace
from toolwright.core.journal.units import Apply
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelRequest
from toolwright.core.spaces import SpaceMessage
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.runtime.runtime import Runtime
from toolwright.runtime.threads.inbox import preview
from toolwright.testing import ManualMotor, ScriptedModel

pytestmark = pytest.mark.anyio

ENTER = {"name": "enter_space", "args": {"spaceId": "tea"}}
HUSAM_ASKS = 'INBOX: [Husam: "Book a hotel in Tokyo"]'


def says(text: str) -> dict[str, Any]:
    return {"name": "send_message", "args": {"text": text}}


def calls(*asked: dict[str, Any]) -> dict[str, Any]:
    return {"calls": list(asked)}


CONFIRM = tw.Tool.from_config(
    {
        "name": "confirmAction",
        "description": "Ask the user to confirm an action",
        "inputSchema": {"type": "object", "properties": {"question": {"type": "string"}}},
        "executionType": "space",
        "visible": True,
        "isAsync": True,
    }
)
CHART = tw.Tool.from_config(
    {
        "name": "displayChart",
        "description": "Show a chart.",
        "inputSchema": {"type": "object"},
        "executionType": "internal",
        "visible": True,
    }
)
ASK_OUT = tw.Tool.from_config(
    {
        "name": "askOutside",
        "description": "Ask.",
        "inputSchema": {"type": "object"},
        "executionType": "external",
        "timeout": 10_000,
    }
)


@tw.tool(description="Add.", visible=True)
async def add(a: int, b: int) -> int:
    return a + b


@tw.tool(description="Break.", visible=True)
async def crash() -> None:
    raise RuntimeError("broken")


@dataclass
class House:
    """Husam, the agent `host` and possibly others in the space `tea`."""

    rt: Runtime
    motor: ManualMotor
    husam: str

    async def hears(self, text: str, space_id: str = "tea") -> str:
        """Post a message as Husam. Return the id of the run that reads it, after all runs have ended."""
        spoken = await self.rt.spaces.say(space_id, self.husam, text)
        await self.motor.run_until_idle()
        return next(iter(spoken.runs.values()), "")

    async def said(self, space_id: str = "tea") -> Sequence[SpaceMessage]:
        return [each.message for each in await self.rt.spaces.messages(space_id, 200)]

    async def types(self, space_id: str = "tea") -> list[str]:
        return [event.type for event in await self.rt.events.list(Topic(kind="space", id=space_id))]

    async def read(self, name: str = "host") -> Sequence[Message]:
        """Return the messages of the agent's home thread."""
        return await self.rt.threads.messages((await self.rt.agents.get(name)).home_thread_id)

    async def results(self) -> list[str]:
        return [message.content for message in await self.read() if message.role == "tool"]


@asynccontextmanager
async def house(
    turns: Any, tools: Sequence[tw.Tool] = (), others: Sequence[str] = (), **options: Any
) -> AsyncGenerator[House]:  # a script
    model = ScriptedModel(turns)
    kits: dict[str, Any] = {"toolkits": ["spaces", "mind"], **options}
    agents = [
        tw.Agent(name, tw.Prompt(name, "You host.", model=model, tools=tools), **kits)
        for name in ("host", *others)
    ]
    async with journals.by_hand(tw.App(agents=agents)) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host", *others])
        yield House(rt, motor, husam.id)


@requirement("S3-6-3", "S3-6-5")
async def test_an_agent_hears_enters_and_speaks() -> None:
    turns = [calls(ENTER), calls(says("Hello, Husam!")), {"text": "I greeted."}]
    async with house(turns) as made:
        run_id = await made.hears("Book a hotel in Tokyo")
        run = await made.rt.runs.get(run_id)
        assert (run.status, run.stop_reason, run.chain_depth) == ("completed", "end_turn", 0)
        first, hello = await made.said()
        host = await made.rt.agents.get("host")
        assert (hello.content, hello.seq, hello.role, hello.entity_id) == (
            "Hello, Husam!",
            2,
            "assistant",
            host.entity_id,
        )
        inbox, *_ = await made.read()
        assert inbox.content == f'{HUSAM_ASKS} (in "Tea", spaceId: tea, messageId: {first.id})'
        entered, sent = await made.results()
        assert '"messages":[{"messageId"' in entered and '"displayName":"Husam"' in entered
        assert sent == f'{{"messageId":"{hello.id}"}}'
        assert (await made.types())[2:] == [
            "space.message",
            "agent.active",
            "space.message",
            "agent.inactive",
        ]
        thread = await made.rt.threads.get(host.home_thread_id)
        assert thread.space_id == "tea"


@requirement("S3-5.1-3")
async def test_what_it_reads_at_every_step_is_what_is_there() -> None:
    goal = {"name": "set_goals", "args": {"goals": [{"description": "Be kind"}]}}
    model = Watched([calls(ENTER), calls(goal), {"text": "Done."}])
    agent = tw.Agent(
        "host", tw.Prompt("h", "You host.", model=model, tools=[CHART]), toolkits=["spaces", "mind"]
    )
    async with journals.by_hand(tw.App(agents=[agent])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", description="For tea", members=[husam.id, "host"])
        await rt.spaces.say("tea", husam.id, "Hi")
        await motor.run_until_idle()
    first, second, third = map(prompt_of, model.requests)
    assert first.startswith(f"You host.\n\nYou are host (entityId: {agent.entity_id}).")
    assert "Tea (private, spaceId: tea): For tea. Husam (human), host (agent)" in first
    assert "You have not entered a space." in first and "displayChart" in first and "call skip" in first
    assert "spaceId: tea) — you are here" in second and "Be kind" not in second
    assert "- Be kind (id: " in third


@requirement("S3-4.4-1", "S3-5.1-2", "S3-10-5")
async def test_a_visible_call_without_a_space_is_an_error_and_does_nothing_else() -> None:
    turns = [calls({"name": "confirmAction", "args": {"question": "Sure?"}}), {"text": "Oh."}]
    async with house(turns, [CONFIRM]) as made:
        await made.hears("Book a hotel in Tokyo")
        [answer] = await made.results()
        assert (
            answer
            == '{"error":"Tool \\"confirmAction\\" is visible but you are not in a space. Call enter_space first."}'
        )
        assert len(await made.said()) == 1
        assert list(await made.rt.calls.list()) == []


@requirement("S3-4.1-3", "S3-7.3-2", "S3-7.5-6", "S3-8-2", "S3-8-4", "S3-8.1-5")
async def test_a_confirmation_goes_from_requires_action_to_complete_and_to_the_inbox() -> None:
    ask = {"name": "confirmAction", "args": {"question": "Confirm booking?"}}
    turns = [
        {"when": "[Tool Result: confirmAction]", "text": "Husam confirmed! Booking now..."},
        calls(ENTER),
        calls(ask),
        {"text": "Asked Husam to confirm. Moving on to other tasks."},
    ]
    async with house(turns, [CONFIRM]) as made:
        run = await made.rt.runs.get(await made.hears("Book a hotel in Tokyo"))
        assert (run.status, run.output) == ("completed", "Asked Husam to confirm. Moving on to other tasks.")
        [call] = await made.rt.calls.list()
        assert (call.status, call.visible, call.space_id) == ("pending", True, "tea")
        shown = (await made.said())[-1]
        assert (shown.role, shown.content, shown.metadata["status"]) == ("assistant", "", "requires_action")
        assert shown.metadata["args"] == {"question": "Confirm booking?"}
        assert (await made.results())[-1] == f'{{"status":"pending","pendingToolCallId":"{call.id}"}}'
        for refused in (
            made.rt.spaces.say("tea", made.husam, "Yes", parent_id=shown.id),
            made.rt.spaces.edit(shown.id, "Yes"),
            made.rt.spaces.react(shown.id, made.husam, "+1"),
        ):
            with pytest.raises(InvalidRequest, match="tool call"):
                await refused

        await made.rt.calls.submit(run.id, call.id, {"confirmed": True})
        await made.motor.run_until_idle()
        again = (await made.said())[-1]
        assert again.metadata == {**shown.metadata, "status": "complete", "result": {"confirmed": True}}
        last = (await made.read())[-2:]
        assert [message.content for message in last] == [
            f'INBOX: [Tool Result: confirmAction] (callId: {call.id}) {{"confirmed":true}}',
            "Husam confirmed! Booking now...",
        ]
        assert (await made.types())[-5:-1] == [
            "agent.inactive",
            "tool.done",
            "message_updated",
            "agent.active",
        ]


@requirement("S3-2.2-2", "S3-5-1", "S3-8-2", "S3-8-3", "S3-8.1-1", "S3-8.1-3", "S3-8.1-4")
async def test_calls_that_are_executed_here_are_shown_through_their_statuses() -> None:
    turns = [
        calls(
            ENTER,
            {"name": "add", "args": {"a": 1, "b": 2}},
            {"name": "crash", "args": {}},
            {"name": "displayChart", "args": {"bars": [1]}},
        ),
        {"text": "Done."},
    ]
    async with house(turns, [add, crash, CHART]) as made:
        await made.hears("Go")
        shown = [message.metadata for message in (await made.said())[1:]]
        assert [(one["toolName"], one["status"], one["result"]) for one in shown] == [
            ("add", "complete", 3),
            ("crash", "error", {"error": "broken"}),
            ("displayChart", "complete", {"success": True, "args": {"bars": [1]}}),
        ]
        of_calls = [name for name in await made.types() if name.startswith("tool.")]
        assert of_calls == [
            "tool.started",
            "tool.done",
            "tool.started",
            "tool.error",
            "tool.started",
            "tool.done",
        ]


@requirement("S3-7.3-5")
async def test_a_call_that_times_out_can_still_be_answered() -> None:
    turns = [
        {"when": "[Tool Result: askOutside]", "text": "At last."},
        calls(ENTER, {"name": "askOutside", "args": {}}),
        {"text": "No answer."},
    ]
    async with house(turns, [ASK_OUT]) as made:
        run_id = await made.hears("Go")
        await made.motor.run_timers()
        assert (await made.results())[-1] == '{"error":"Tool timed out after 10000ms","error_code":"timeout"}'
        shown = (await made.said())[-1].metadata
        assert (shown["status"], shown["timedOut"]) == ("requires_action", True)
        [call] = await made.rt.calls.list()
        await made.rt.calls.submit(run_id, call.id, tw.ToolResult.fail("nobody there"))
        await made.motor.run_until_idle()
        shown = (await made.said())[-1].metadata
        assert (shown["status"], shown["result"], "timedOut" in shown) == (
            "error",
            {"error": "nobody there"},
            False,
        )
        assert (await made.read())[-1].content == "At last."


async def test_agents_wake_each_other_only_so_often() -> None:
    script = {name: [calls(ENTER, says(f"{name} here")), {"text": "Said."}] for name in ("host", "scout")}
    async with house(script, others=["scout"]) as made:
        await made.hears("Talk")
        runs = list(await made.rt.runs.list(limit=100))
        assert {run.status for run in runs} == {"completed"}
        assert max(run.chain_depth for run in runs) == 3
        said = [message.content for message in await made.said()]
        assert len(said) == 1 + len(runs)
        await made.motor.run_until_idle()
        assert len(await made.rt.runs.list(limit=100)) == len(runs)


@requirement("S3-6-7")
async def test_a_skipped_run_leaves_nothing_behind_for_the_model() -> None:
    skip = {"name": "skip", "args": {"reason": "Small talk"}}
    turns = [{"when": "Lovely weather", **calls(skip)}, {"when": "Really", "text": "I was asked."}]
    async with house(turns) as made:
        run = await made.rt.runs.get(await made.hears("Lovely weather"))
        assert (run.status, run.output) == ("skipped", "Small talk")
        assert [message.kept for message in await made.read()] == [False, False, False]
        host = await made.rt.agents.get("host")
        view = await made.rt.events.list(Topic(kind="thread", id=host.home_thread_id))
        assert view[-1].type == "run.skipped"
        await made.hears("Really?")
        assert [message.content for message in await made.read()][-1] == "I was asked."


async def test_who_was_put_out_of_a_space_is_in_it_no_longer() -> None:
    turns = [
        {"when": '[Husam: "Enter"]', **calls(ENTER)},
        {"when": '[Husam: "Speak"]', **calls(says("Hello"))},
        {"text": "Done."},
    ]
    async with house(turns) as made:
        await made.hears("Enter")
        host = await made.rt.agents.get("host")
        assert (await made.rt.threads.get(host.home_thread_id)).space_id == "tea"
        await made.rt.spaces.say("tea", made.husam, "Speak")
        await made.rt.spaces.remove_member("tea", host.entity_id)
        await made.motor.run_until_idle()
        assert (await made.types())[-1] == "member_removed", "nothing more of it is told there"
        assert (await made.results())[-1].startswith('{"error":"You are not in a space.')
        assert (await made.rt.threads.get(host.home_thread_id)).space_id is None
        assert [message.content for message in await made.said()] == ["Enter", "Speak"]


async def test_what_comes_while_it_works_waits_for_the_next_run_and_is_read_in_order() -> None:
    script = {
        "host": [calls(ENTER), {"text": "Done."}],
        "scout": [calls(ENTER, says("From scout")), {"text": "Said."}],
    }
    async with house(script, others=["scout"]) as made:
        await made.hears("One")
        [home] = [m for m in await made.read() if m.role == "user" and "From scout" in m.content]
        lines = home.content.splitlines()
        assert lines[0] == "INBOX:" and lines[1].startswith('[Husam: "One"]')
        assert lines[2].startswith('[Agent scout: "From scout"]')
        await made.rt.spaces.say("tea", made.husam, "Two")
        await made.rt.spaces.say("tea", made.husam, "Three")
        await made.motor.run_until_idle()
        both = [m.content for m in await made.read() if "Two" in m.content]
        assert both[0].splitlines()[0] == "INBOX:"
        assert ["Two" in both[0].splitlines()[1], "Three" in both[0].splitlines()[2]] == [True, True]


@requirement("S3-6-4", "S3-6-6")
async def test_messages_can_be_read_without_entering() -> None:
    read = {"name": "read_messages", "args": {"spaceId": "tea", "offset": 1, "limit": 1}}
    elsewhere = {"name": "read_messages", "args": {"spaceId": "secret"}}
    endless = {"name": "read_messages", "args": {"spaceId": "x" * 100_000}}
    async with house(
        [calls(read, elsewhere, endless, ENTER, {"name": "leave_space", "args": {}}), {"text": "."}]
    ) as made:
        await made.rt.spaces.create("Secret", id="secret", members=[made.husam])
        await made.rt.spaces.say("tea", made.husam, "One")
        await made.hears("Two")
        page, refused, brief, _, left = await made.results()
        assert '"content":"One"' in page and '"content":"Two"' not in page
        assert refused.startswith('{"error":"There is no space \'secret\' that you are a member of."')
        assert "that you are a member of." in brief and len(brief) < 400
        assert left == '{"success":true}'


async def test_an_answer_in_another_space_tells_where_it_came_from() -> None:
    other = {"name": "enter_space", "args": {"spaceId": "cake"}}
    async with house([calls(other, says("Over here")), {"text": "."}]) as made:
        await made.rt.spaces.create("Cake", id="cake", members=["host", made.husam])
        await made.hears("Go there")
        [first] = await made.said()
        [said] = await made.said("cake")
        assert said.metadata == {"origin": {"spaceId": "tea", "messageId": first.id, "entityId": made.husam}}


async def test_what_waits_for_the_next_run_is_reported_in_one_line_on_request() -> None:
    async def interrupt(_: ModelRequest) -> None:
        model.before = None
        await rt.spaces.say("tea", husam.id, "And sugar")

    model = Watched([calls(ENTER), {"text": "Done."}], interrupt)
    agent = tw.Agent("host", tw.Prompt("h", model=model), toolkits=["spaces"], inbox_preview=True)
    async with journals.by_hand(tw.App(agents=[agent])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        await rt.spaces.say("tea", husam.id, "Tea, please")
        await motor.run_until_idle()
        runs = await rt.runs.list()
    line = '1 new event waits in your inbox for your next run, the first: [Husam: "And sugar"]'
    assert [line in prompt_of(each) for each in model.requests] == [False, True, False, False]
    assert [run.status for run in runs] == ["completed", "completed"]


class Shop(BaseModel):
    """Values that `buy` requires."""

    store_id: str


@tw.tool(description="Buy.", tenvs=Shop)
async def buy() -> str:
    return "bought"


async def test_an_agent_that_cannot_have_a_home_thread_is_in_no_space() -> None:
    shopper = tw.Agent("shopper", tw.Prompt("shopper", "Shop.", tools=[buy]), toolkits=["spaces"])
    fine = tw.Agent("fine", tw.Prompt("fine", "Shop.", tools=[buy]), tenvs={"store_id": "vs-1"})
    async with journals.by_hand(tw.App(agents=[shopper, fine], tools=[buy])) as (rt, _):
        await rt.spaces.create(id="tea", members=["fine"])
        told = "'shopper' cannot be in a space, its tenvs are not what its tools need: missing: store_id"
        for refused in (rt.spaces.add_member("tea", "shopper"), rt.spaces.create(members=["shopper"])):
            with pytest.raises(TenvsRequired, match=told) as error:
                await refused
            assert error.value.missing == ["store_id"]
        assert len(await rt.spaces.members("tea")) == 1

        with pytest.raises(InvalidConfiguration, match="missing: store_id") as faulty:
            await rt.agents.save("configured", {"tools": ["buy"]})
        assert [one["path"] for one in faulty.value.details] == ["config.tenvs"]
        await rt.agents.save("configured", {"tools": ["buy"], "tenvs": {"store_id": "vs-1"}})
        with pytest.raises(InvalidConfiguration, match="missing: store_id"):
            await rt.agents.save("configured", {"tools": ["buy"], "toolkits": []})


async def test_a_call_outlives_the_space_that_it_is_shown_in() -> None:
    turns = [
        {"when": "[Tool Result: confirmAction]", "text": "Confirmed all the same."},
        calls(ENTER, {"name": "confirmAction", "args": {}}),
        {"text": "."},
    ]
    async with house(turns, [CONFIRM]) as made:
        run_id = await made.hears("Go")
        await made.rt.spaces.delete("tea")
        [call] = await made.rt.calls.list()
        assert (call.status, call.space_id) == ("pending", "tea")
        assert await made.rt.calls.submit(run_id, call.id, {"confirmed": True}) == "inbox"
        await made.motor.run_until_idle()
        assert (await made.read())[-1].content == "Confirmed all the same."
        assert (await made.types())[-1] == "space.deleted"


async def told(made: House, space_id: str = "tea") -> list[tuple[str, Any]]:  # payloads
    """Return the members that entered and left the space since its creation."""
    events = await made.rt.events.list(Topic(kind="space", id=space_id))
    return [(one.type, one.payload["entityId"]) for one in events if one.type.startswith("member_")][2:]


async def test_who_is_deleted_leaves_their_spaces_in_front_of_everybody() -> None:
    async with house([{"text": "."}]) as made:
        saved = await made.rt.agents.save("guest", {"agent": {"system": "Be."}, "model": "openai:none"})
        await made.rt.spaces.add_member("tea", "guest")
        await made.rt.agents.delete("guest")
        await made.rt.entities.delete(made.husam)
        guest = saved.agent.entity_id
        assert await told(made) == [
            ("member_added", guest),
            ("member_removed", guest),
            ("member_removed", made.husam),
        ]
        assert [one.type for one in await made.rt.spaces.members("tea")] == ["agent"]


async def test_the_pending_call_of_a_deleted_agent_is_shown_cancelled_in_its_space(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(
        json.dumps([calls(ENTER, {"name": "confirmAction", "args": {"question": "Go?"}}), {"text": "."}])
    )
    async with house([{"text": "."}]) as made:
        tool: JSON = {
            "name": "confirmAction",
            "description": "Ask.",
            "inputSchema": {"type": "object"},
            "executionType": "space",
            "isAsync": True,
        }
        config: JSON = {"model": f"scripted:{script}", "toolkits": ["spaces"], "tools": [tool]}
        saved = await made.rt.agents.save("guest", config)
        await made.rt.spaces.add_member("tea", "guest")
        await made.hears("Go")
        [call] = await made.rt.calls.list()
        shown = (await made.said())[-1]
        assert shown.metadata["status"] == "requires_action"
        before = len(await made.rt.events.list(Topic(kind="space", id="tea")))
        await made.rt.agents.delete("guest")
        after = (await made.said())[-1]
        assert after.metadata == shown.metadata | {
            "status": "error",
            "result": {"error": "Tool call cancelled"},
        }
        events = (await made.rt.events.list(Topic(kind="space", id="tea")))[before:]
        assert [each.type for each in events] == ["tool.error", "message_updated", "member_removed"]
        assert events[0].payload["error"] == "Tool call cancelled"
        message: Any = events[1].payload["message"]
        assert (message["id"], message["seq"]) == (shown.id, shown.seq)
        assert message["entity"]["id"] == saved.agent.entity_id
        in_thread = await made.rt.events.list(Topic(kind="thread", id=call.thread_id))
        assert (in_thread[-1].type, in_thread[-1].run_id) == ("tool.error", call.run_id)
        await made.motor.run_until_idle()
        assert len(await made.rt.events.list(Topic(kind="thread", id=call.thread_id))) == len(in_thread)
        assert (await made.rt.calls.get(call.id)).status == "cancelled"


async def test_who_joins_by_speaking_is_announced() -> None:
    async with house([{"text": "."}]) as made:
        await made.rt.spaces.create("Hall", "public", id="hall", members=["host", made.husam])
        ada = await made.rt.entities.create(external_id="ada")
        await made.rt.spaces.say("hall", ada.id, "Hi")
        await made.rt.spaces.say("hall", ada.id, "Hi again")
        assert await told(made, "hall") == [("member_added", ada.id)]
        assert (await made.types("hall"))[2:4] == ["member_added", "space.message"]


async def test_entering_the_current_space_again_notifies_no_one() -> None:
    async with house([calls(ENTER, ENTER), calls(ENTER), {"text": "."}]) as made:
        await made.hears("Go")
        assert [name for name in await made.types() if name.startswith("agent.")] == [
            "agent.active",
            "agent.inactive",
        ]


MISUSE: list[tuple[Callable[[Any], Awaitable[object]], str]] = [  # with any argument
    (lambda spaces: spaces.create("x", members="ada"), "members must be a list of entities, not 'ada'."),
    (lambda spaces: spaces.create("x", members=None), "members must be a list of entities, not None."),
    (
        lambda spaces: spaces.create("x", kind="club"),
        "kind must be one of 'public', 'private', 'dm', not 'club'.",
    ),
    (lambda spaces: spaces.create(5), "name must be text, not 5."),
    (
        lambda spaces: spaces.update("tea", nmae="x"),
        "nmae is not a field of a space; the fields are name, description, metadata and delivery.",
    ),
    (lambda spaces: spaces.mark_read("tea", "x", "1"), "seq must be a non-negative integer."),
    (lambda spaces: spaces.messages("tea", after="x"), "after must be a non-negative integer."),
    (lambda spaces: spaces.history("tea", -1), "limit must be a non-negative integer."),
    (lambda spaces: spaces.say("tea", "host", " "), "content is empty."),
]


@pytest.mark.parametrize(("misuse", "sentence"), MISUSE)
async def test_misuse_is_refused_in_one_sentence(misuse: Any, sentence: str) -> None:
    async with house([{"text": "."}]) as made:
        with pytest.raises(InvalidRequest) as refused:
            await misuse(made.rt.spaces)
        assert refused.value.message == sentence
        assert await made.said() == []


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_an_agent_that_says_nothing_is_told_which_argument_is_empty(blank: str) -> None:
    model = ScriptedModel([calls(ENTER, says(blank)), {"text": "."}])
    app = tw.App(agents=[tw.Agent("host", tw.Prompt("host", model=model), toolkits=["spaces"])])
    async with journals.by_hand(app) as (rt, motor):
        husam = await rt.entities.create(external_id="husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        spoken = await rt.spaces.say("tea", husam.id, "Hi")
        await motor.run_until_idle()
        [run_id] = spoken.runs.values()
        told = [each.content for each in await rt.runs.messages(run_id) if each.tool_name == "send_message"]
        assert told == ['{"error":"text is empty.","error_code":"invalid_request"}']


ASK_HERE = tw.Tool.from_config(
    {
        "name": "askHere",
        "description": "Ask those in the space.",
        "inputSchema": {"type": "object"},
        "executionType": "space",
    }
)


async def presence(made: House, space_id: str = "tea") -> list[tuple[str, object, str | None]]:
    """Return the events about working agents in the space: the type, the entity, and the run."""
    events = await made.rt.events.list(Topic(kind="space", id=space_id))
    return [
        (each.type, each.payload["agentEntityId"], each.run_id)
        for each in events
        if each.type.startswith("agent.")
    ]


@pytest.mark.parametrize(
    ("turns", "status"),
    [
        ([{"text": "Noted."}], "completed"),
        ([calls({"name": "askHere", "args": {}}), {"text": "Thanks."}], "waiting"),
    ],
)
async def test_an_agent_that_enters_no_space_is_shown_as_working_where_it_was_spoken_to(
    turns: Any, status: str
) -> None:
    async with house(turns, [ASK_HERE], toolkits=["memory"]) as made:
        await made.rt.spaces.create("Hall", id="hall", members=["host", made.husam])
        run_id = await made.hears("Hi")
        assert (await made.rt.runs.get(run_id)).status == status
        entity_id = (await made.rt.agents.get("host")).entity_id
        active, inactive = [(f"agent.{each}", entity_id, run_id) for each in ("active", "inactive")]
        assert await presence(made) == ([active] if status == "waiting" else [active, inactive])
        if status == "waiting":
            [call] = await made.rt.calls.list()
            await made.rt.calls.submit(run_id, call.id, "yes")
            await made.motor.run_until_idle()
            assert (await made.rt.runs.get(run_id)).status == "completed"
            assert await presence(made) == [active, inactive]
        assert await presence(made, "hall") == []


async def test_an_agent_whose_run_fails_is_no_longer_shown_as_working() -> None:
    host = tw.Agent(
        "host",
        tw.Prompt("host", "You host.", model=Watched(before=raising(RuntimeError("broken")))),
        toolkits=["memory"],
    )
    async with journals.by_hand(tw.App(agents=[host])) as (rt, motor):
        husam = await rt.entities.create(external_id="husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        made = House(rt, motor, husam.id)
        run_id = await made.hears("Hi")
        assert (await rt.runs.get(run_id)).status == "failed"
        told = [(type, run) for type, _, run in await presence(made)]
        assert told[:2] == [("agent.active", run_id), ("agent.inactive", run_id)]
        assert [type for type, _ in told] == ["agent.active", "agent.inactive"] * (len(told) // 2)


async def test_a_cancelled_agent_is_no_longer_shown_as_working() -> None:
    async with house([calls({"name": "askHere", "args": {}})], [ASK_HERE], toolkits=["memory"]) as made:
        run_id = await made.hears("Hi")
        await made.rt.runs.cancel(run_id)
        await made.motor.run_until_idle()
        assert (await made.rt.runs.get(run_id)).status == "cancelled"
        assert [type for type, _, _ in await presence(made)] == ["agent.active", "agent.inactive"]


async def test_an_agent_whose_run_is_open_again_is_shown_as_working_where_it_is() -> None:
    async with house([calls(ENTER), {"text": "."}]) as made:
        run_id = await made.hears("Hi")
        toolkit = await made.rt.toolkit("host", run_id)
        asking = asyncio.create_task(toolkit.call("get_plans", {}))
        while not asking.done():
            await asyncio.sleep(0)
            await made.motor.run_until_idle()
        assert "is_error" not in await asking
        assert [type for type, _, _ in await presence(made)] == ["agent.active", "agent.inactive"] * 2


async def test_a_run_not_started_in_a_space_is_shown_as_working_in_none() -> None:
    async with house([{"text": "Noted."}], toolkits=["memory"]) as made:
        await made.hears("Hi")
        before = await presence(made)
        await made.rt.inboxes.trigger("host", "billing", {})
        await made.motor.run_until_idle()
        assert await presence(made) == before


async def test_who_may_no_longer_read_a_space_is_not_shown_as_working_there() -> None:
    async with house([{"text": "Noted."}], toolkits=["memory"]) as made:
        await made.rt.spaces.say("tea", made.husam, "Hi")
        await made.rt.spaces.remove_member("tea", (await made.rt.agents.get("host")).entity_id)
        await made.motor.run_until_idle()
        assert await presence(made) == []


async def test_a_space_has_the_id_of_a_deleted_one_though_a_crash_has_left_its_messages() -> None:
    async with journals.by_hand(tw.App()) as (rt, _):
        husam = await rt.entities.create(external_id="husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id])
        spoken = await rt.spaces.say("tea", husam.id, "Hi")
        store = rt._store  # pyright: ignore[reportPrivateUsage]  # as a process that dies before its sweep
        gone = DropSpace(space_id="tea")
        await store.commit(Apply(token="t", at=datetime.now(UTC), effects=(gone,)))
        with pytest.raises(NotFound):
            await rt.spaces.message(spoken.message.id)
        await rt.spaces.create("Coffee", id="tea", members=[husam.id])
        assert list(await rt.spaces.messages("tea")) == []
        with pytest.raises(AlreadyExists):
            await rt.spaces.create("Coffee", id="tea")


@pytest.mark.parametrize("other", ["Husam", "husam", "Ｈusam", "Hu\u200esam", "Husam "])
async def test_an_author_with_the_name_of_another_is_followed_by_their_id(other: str) -> None:
    async with house([{"text": "Noted."}] * 4) as made:
        second = await made.rt.entities.create(external_id="other", display_name=other)
        await made.hears("Alone.")
        await made.rt.spaces.add_member("tea", second.id)
        await made.hears("As one of two.")  # the other has not written
        await made.rt.spaces.say("tea", second.id, "As the other.")
        await made.motor.run_until_idle()
        lines = [each.content for each in await made.read() if each.role == "user"]
        assert lines[0] == 'INBOX: [Husam: "Alone."] ' + lines[0].partition("] ")[2]
        assert lines[1].startswith(f'INBOX: [Husam ({made.husam}): "As one of two."] ')
        assert lines[2].startswith("INBOX: [") and f' ({second.id}): "As the other."] ' in lines[2]


async def test_authors_of_one_name_are_told_apart_after_they_have_left_and_in_the_preview() -> None:
    async with house([{"text": "Noted."}] * 4, inbox_preview=True) as made:
        second = await made.rt.entities.create(external_id="other", display_name="Husam")
        await made.rt.spaces.add_member("tea", second.id)
        members = {"tea": [(each, "Husam") for each in await made.rt.spaces.members("tea")]}
        await made.rt.spaces.say("tea", second.id, "First.")
        await made.rt.spaces.say("tea", made.husam, "Second.")
        await made.rt.spaces.remove_member("tea", second.id)
        waiting = await made.rt.inboxes.list("host")
        assert f"the first: [Husam ({waiting[0].content['entityId']}): " in (preview(waiting, members) or "")
        await made.motor.run_until_idle()
        [line] = [each.content for each in await made.read() if each.role == "user"]
        assert f'[Husam ({second.id}): "First."]' in line
        assert f'[Husam ({made.husam}): "Second."]' in line
