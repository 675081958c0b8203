"""Secrets of an agent in a space are never posted or shown there, by any participant (D6)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

import toolwright as tw
from tests import journals
from tests.runtime.rig import running
from tests.runtime.test_space_stream import ENTERS, Piece, Slow
from tests.runtime.test_spaces import CONFIRM, ENTER, House, calls, says
from toolwright.core.journal.reads import SpaceReads
from toolwright.core.journal.store import CallVisibility, Store
from toolwright.core.spaces import Member
from toolwright.core.threads.event import Event, Topic
from toolwright.testing import MemoryBus, MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio

SECRET = "sk-canary-0123456789"
HERE = Topic(kind="space", id="tea")


IMPATIENT = tw.Tool.from_config(
    {
        "name": "askOutside",
        "description": "Ask.",
        "inputSchema": {"type": "object"},
        "executionType": "external",
        "timeout": 10_000,
    }
)


@tw.tool(description="Repeat.", visible=True)
async def repeat(text: str) -> str:
    return f"You said {text}"


def agents(host: Any) -> tw.App:  # its model
    """Return `host`, and the agent `guest`, which has a secret and stays silent."""
    silent = ScriptedModel({"guest": [calls({"name": "skip", "args": {}})]})
    spoken = tw.Prompt("host", "You host.", model=host, tools=[repeat, CONFIRM, IMPATIENT])
    guest = tw.Agent(
        "guest", tw.Prompt("guest", "You visit.", model=silent), toolkits=["spaces"], env={"KEY": SECRET}
    )
    return tw.App(agents=[tw.Agent("host", spoken, toolkits=["spaces"]), guest])


@asynccontextmanager
async def visited(*turns: Any) -> AsyncGenerator[House]:
    """Run a space `tea` with Husam, `host` and `guest`."""
    async with journals.by_hand(agents(ScriptedModel(list(turns)))) as (rt, motor):
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host", "guest"])
        yield House(rt, motor, husam.id)


async def everything(made: House) -> str:
    """Return everything visible in the space, and all requests of the guest."""
    events = await made.rt.events.list(HERE)
    return repr([*await made.said(), *events, *await made.rt.inboxes.list("guest")])


async def test_what_an_agent_says_holds_no_secret_of_another() -> None:
    async with visited(calls(ENTER, says(f"It is {SECRET}")), {"text": "."}) as made:
        await made.hears("Go")
        assert (await made.said())[-1].content == "It is [redacted:KEY]"
        assert SECRET not in await everything(made)


async def test_what_a_visible_call_shows_holds_no_secret_of_another() -> None:
    turns = [
        calls(
            ENTER,
            {"name": "repeat", "args": {"text": SECRET}},
            {"name": "confirmAction", "args": {"question": SECRET}},
        ),
        {"text": "."},
    ]
    async with visited(*turns) as made:
        await made.hears("Go")
        shown = [message.metadata for message in (await made.said())[1:]]
        assert [(one["args"], one["result"]) for one in shown] == [
            ({"text": "[redacted:KEY]"}, "You said [redacted:KEY]"),
            ({"question": "[redacted:KEY]"}, None),
        ]
        [call] = await made.rt.calls.list()
        [seen] = await made.rt.calls.list(sees=CallVisibility(users=[], entity_id=made.husam))
        assert (seen.id, seen.arguments) == (call.id, '{"question":"[redacted:KEY]"}')
        await made.rt.calls.submit(call.run_id, call.id, {"was": SECRET})
        seen = (
            await made.rt.calls.list(status=["resolved"], sees=CallVisibility(users=[], entity_id=made.husam))
        )[0]
        assert seen.result == {"status": "success", "result": {"was": "[redacted:KEY]"}}
        assert (await made.said())[-1].metadata["result"] == {"was": "[redacted:KEY]"}
        assert SECRET not in await everything(made)


async def test_a_call_whose_time_is_over_is_shown_without_it_too() -> None:
    async with visited(calls(ENTER, {"name": "askOutside", "args": {"text": SECRET}}), {"text": "."}) as made:
        await made.hears("Go")
        await made.motor.run_timers()
        shown = (await made.said())[-1].metadata
        assert (shown["timedOut"], shown["args"]) == (True, {"text": "[redacted:KEY]"})
        assert SECRET not in await everything(made)


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("send_message", ['{"text": "It is ', SECRET[:9], SECRET[9:], ' for sure"}']),
        ("confirmAction", ['{"question": "It is ', SECRET[:9], SECRET[9:], ' for sure"}']),
    ],
)
async def test_what_appears_while_it_is_written_holds_no_secret_of_another(
    name: str, pieces: Sequence[str]
) -> None:
    written: list[Piece] = [(0, name, piece) for piece in pieces]
    async with journals.runtime(agents(Slow(ENTERS, written, []))) as rt:
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host", "guest"])
        events: list[Event] = []
        async with rt.events.following(HERE) as following, asyncio.timeout(10):
            await rt.spaces.say("tea", husam.id, "Hi")
            async for event in following.events:
                events.append(event)
                if event.type == "agent.inactive" and event.agent == (await rt.agents.get("host")).id:
                    break
        texts = [event.payload.get("text") for event in events if event.type.endswith("streaming")]
        assert texts, "nothing appeared"
        assert "[redacted:KEY]" in str(texts[-1])
        assert SECRET[:9] not in repr(events)


class CountingReads:
    """Reads of spaces that count the queries of members; one answer can be held back."""

    def __init__(self, inner: SpaceReads) -> None:
        self._inner = inner
        self.asked = 0
        self.stuck = False
        self.reached = asyncio.Event()

    async def members(self, space_id: str) -> Sequence[Member]:
        self.asked += 1
        if self.stuck:
            self.stuck = False
            self.reached.set()
            await asyncio.Event().wait()
        return await self._inner.members(space_id)

    def __getattr__(self, name: str) -> Any:  # other reads pass through
        return getattr(self._inner, name)


class Counted:
    """Opens a store in memory whose reads of spaces are counted."""

    reads: CountingReads

    async def __call__(self, bus: MemoryBus) -> Store:
        store = MemoryStore(bus.publish)
        self.reads = CountingReads(store.spaces)
        store.spaces = cast("Any", self.reads)  # other reads pass through
        return store


async def test_a_message_takes_one_look_at_who_is_there() -> None:
    counted = Counted()
    async with running(ScriptedModel([]), store=counted) as rig:
        husam = await rig.rt.entities.create(external_id="husam")
        await rig.rt.spaces.create("Tea", id="tea", members=[husam.id])
        counted.reads.asked = 0
        await rig.rt.spaces.say("tea", husam.id, "Hi")
        assert counted.reads.asked == 1


async def test_a_result_is_recorded_though_the_process_stops_while_it_looks_who_is_there() -> None:
    counted = Counted()

    @tw.tool(description="Work.", visible=True)
    async def work() -> str:
        counted.reads.stuck = True
        return "worked"

    script = ScriptedModel([calls(ENTER, {"name": "work", "args": {}})])
    async with running(script, [work], store=counted, options={"toolkits": ["spaces"]}) as rig:
        husam = await rig.rt.entities.create(external_id="husam")
        await rig.rt.spaces.create("Tea", id="tea", members=[husam.id, "tester"])
        await rig.rt.spaces.say("tea", husam.id, "Hi")
        await counted.reads.reached.wait()
    [_, call] = await rig.rt.calls.list(status=None)
    [_, shown] = await rig.rt.spaces.messages("tea")
    assert (call.status, shown.message.metadata["result"]) == ("done", "worked")
