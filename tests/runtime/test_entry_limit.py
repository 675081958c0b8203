"""Everything that enters a thread by its inbox or by a child's report is limited like a result (D20)."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

import toolwright as tw
from tests.kit import DONE, call
from tests.runtime.family_rig import RESUMABLE, create
from toolwright import testing
from toolwright.core.model import ModelEvent, ModelRequest
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualMotor, ScriptedModel
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

LIMIT = 4_096
MAX_AROUND = 1_000  # bytes around the cut text: its sender, and the notice
BIG = "ä" * 50_000
SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
SAYS_IT: Mapping[str, object] = {"text": BIG}


@tw.tool(description="Tell the parent.")
async def tell_parent(state: tw.ThreadState) -> str:
    await state.notify_parent(BIG)
    return "told"


@tw.tool(description="Speak to the parent.")
async def speak_to_parent(state: tw.ThreadState) -> str:
    parent = await state.get_parent_thread()
    assert parent is not None
    parent.queue_message(BIG)
    return "said"


@tw.tool(description="Speak to this thread.")
async def speak_to_itself(state: tw.ThreadState) -> str:
    await state.queue_message(BIG)
    return "said"


Deed = Callable[[Runtime, str], Awaitable[object]]


async def message(rt: Runtime, thread_id: str) -> object:
    return await rt.threads.send(thread_id, "Go")


async def trigger(rt: Runtime, _: str) -> object:
    return await rt.inboxes.trigger("boss", "billing", {"text": BIG})


async def say(rt: Runtime, _: str) -> object:
    person = await rt.entities.create(external_id="ann")
    await rt.spaces.create(id="tea", members=["boss", person.id])
    return await rt.spaces.say("tea", person.id, BIG)


class InTurn:
    """A model that uses these turns one after another across all its runs, and repeats the last one."""

    name = "test:in-turn"

    def __init__(self, turns: Sequence[object]) -> None:
        self._turns = [ScriptedModel([turn]) for turn in turns]
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        turn = self._turns[min(len(self.requests), len(self._turns) - 1)]
        self.requests.append(request)
        async for event in turn.respond(replace(request, step=1, turn=1)):
            yield event


@dataclass(frozen=True, kw_only=True)
class Way:
    """A way into the boss's thread: the turns of the boss and its worker, and the event that starts them."""

    boss: Sequence[object] = (DONE,)
    worker: Sequence[object] = (SAYS_IT,)
    relation: object = "worker"
    side: Mapping[str, Any] | None = None
    deed: Deed = message
    home: bool = False


ASK = call("worker", message="Do")
AGENT = {"name": "worker"}
WAYS: Mapping[str, Way] = {
    "the text of a child that is waited for": Way(boss=(ASK, DONE), relation={**AGENT}),
    "its stop tool": Way(
        boss=(ASK, DONE),
        relation={**AGENT},
        worker=(call("finish", text=BIG),),
        side={"stop_tool": "finish", "stop_tool_response_property": "text"},
    ),
    "its failure": Way(
        boss=(ASK, DONE),
        relation={**AGENT},
        worker=(call("finish", text=BIG),),
        side={"session_fail": "finish", "stop_tool_response_property": "text"},
    ),
    "subagent_create": Way(boss=(create(message="Do"), DONE), relation={**AGENT, **RESUMABLE}),
    "a child in the background": Way(boss=(ASK, DONE, DONE), relation={**AGENT, "blocking": False}),
    "notify_parent": Way(
        boss=(ASK, DONE, DONE, DONE),
        relation={**AGENT, "blocking": False},
        worker=(call("tell_parent"), DONE),
    ),
    "queue_message to a parent": Way(
        boss=(ASK, DONE, DONE, DONE),
        relation={**AGENT, "blocking": False},
        worker=(call("speak_to_parent"), DONE),
    ),
    "queue_message": Way(boss=(call("speak_to_itself"), DONE, DONE)),
    "a service": Way(deed=trigger, home=True),
    "a message in a space": Way(deed=say, home=True),
}


def app_of(way: Way) -> tuple[tw.App, InTurn]:
    boss = InTurn(way.boss)
    finish = tw.Tool(name="finish", description="Finish.", kind="internal", parameters=dict(SCHEMA))
    spoken = tw.Prompt(
        "worker", "You work.", model=InTurn(way.worker), tools=[finish, tell_parent, speak_to_parent]
    )
    worker = tw.Agent(
        "worker", tw.Side(spoken, **(way.side or {})), expose_as_tool=True, tool_description="Works."
    )
    named: Any = way.relation
    prompt = tw.Prompt("boss", "You lead.", model=boss, tools=[named, speak_to_itself])
    return tw.App(agents=[tw.Agent("boss", prompt), worker]), boss


async def turned(rt: Runtime, motor: ManualMotor, way: Way) -> str:
    """Return the boss's thread after everything has arrived in that way."""
    if way.home:
        await way.deed(rt, "")
        await motor.run_until_idle()
        return (await rt.agents.get("boss")).home_thread_id
    thread = await rt.threads.create("boss")
    await way.deed(rt, thread.id)
    await motor.run_until_idle()
    return thread.id


@pytest.mark.parametrize("name", WAYS)
async def test_no_way_into_a_thread_is_without_the_limit_of_a_result(name: str) -> None:
    app, boss = app_of(WAYS[name])
    async with testing.by_hand(app, Settings(max_result_text=LIMIT)) as (rt, motor):
        thread_id = await turned(rt, motor, WAYS[name])
        heard = [each.content for request in boss.requests for each in request.messages]
        longest = max(heard, key=len)
        assert BIG[:1_000] in longest, "it came in"
        assert len(longest.encode()) <= LIMIT + MAX_AROUND
        [path] = re.findall(r"The whole is in the file (\S+)\.\]", longest)
        [file] = [each for each in await rt.files.list(thread_id) if each.path == path]
        assert BIG in (await rt.files.content(file)).decode()
        notes = [each for each in await rt.threads.messages(thread_id) if "The whole is in" in each.content]
        assert [ref.path for each in notes for ref in each.attachments] == [path]
        assert all(len(each.content.encode()) <= LIMIT + MAX_AROUND for each in notes)
