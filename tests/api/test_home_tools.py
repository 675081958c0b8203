"""People, agents and home tools: in a person's thread an agent reaches that person's data, and no one else's (D27).

Every built-in tool and every section of the prompt is in a table here. A new one that is in no table fails.
"""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

import toolwright as tw
from tests.api.test_people_and_agents import EXPOSED, SERVICE, Crowd, crowd
from tests.runtime.narrow import prompt_of
from toolwright.client import Client
from toolwright.core.agents.agent import TOOLKITS
from toolwright.core.agents.mind import GoalChange, MemoryChange, PlanChange
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse

pytestmark = pytest.mark.anyio

MARK = "sesame"  # in all data of Bob and of the agent itself: Ada's thread never shows it


@dataclass
class Puppet:
    """A model that makes the call that the newest message requests as JSON, then says that it is done."""

    name: str = "puppet"
    told: list[str] = field(default_factory=list[str])

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
        self.told.append(prompt_of(request))
        last = request.messages[-1]
        asked = json.loads(last.content) if last.role == "user" and last.content.startswith("{") else None
        if asked is None:
            yield ModelResponse(text="Done.")
            return
        arguments = json.dumps(asked["args"])
        yield ModelResponse(
            calls=(ModelCall(id=f"c{len(self.told)}", name=asked["name"], arguments=arguments),)
        )


@dataclass
class House:
    """An app with one agent for each choice of toolkits. Ada and Bob have threads, and a room each with the agents."""

    crowd: Crowd
    puppet: Puppet
    rooms: dict[str, str]
    said: dict[str, str] = field(default_factory=dict[str, str])
    threads: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    async def thread(self, who: str, agent: str) -> str:
        """Return the thread of the person (or agent: `home`, or without a user: `service`) with the agent."""
        if who == "home":
            return (await self.crowd.rt.agents.get(agent)).home_thread_id
        if (who, agent) not in self.threads:
            made = await self.crowd.open(SERVICE if who == "service" else who, agent)
            self.threads[who, agent] = made["threadId"]
        return self.threads[who, agent]

    async def use(self, who: str, agent: str, name: str, /, **args: Any) -> Any:
        """Call a tool in that thread and return the result as its model reads it."""
        return await self.use_in(await self.thread(who, agent), name, **args)

    async def use_in(self, thread_id: str, name: str, /, **args: Any) -> Any:
        threads, runs = self.crowd.rt.threads, self.crowd.rt.runs
        run = await threads.send(thread_id, json.dumps({"name": name, "args": args}))
        over = await runs.wait(run.id, 20)
        assert over.status in ("completed", "skipped"), over.error
        results = [
            one for one in await threads.messages(thread_id, 1_000, run_id=run.id) if one.role == "tool"
        ]
        return json.loads(results[-1].content)

    async def system(self, who: str, agent: str) -> str:
        """Return the current system text of that thread."""
        run = await self.crowd.rt.threads.send(await self.thread(who, agent), "Hello")
        assert (await self.crowd.rt.runs.wait(run.id, 20)).status == "completed"
        return self.puppet.told[-1]

    async def shown(self, who: str, agent: str) -> list[Any]:
        """Return all that the agent sees in that thread: its system text, and the results of the reading tools."""
        reads: dict[str, tuple[str, dict[str, str]]] = {
            "spaces": ("get_plans", {}),
            "channels": ("search_memory", {"query": MARK}),
        }
        kits = (await self.crowd.rt.agents.get(agent)).toolkits
        name, args = reads[kits[0]]
        return [await self.system(who, agent), await self.use(who, agent, name, **args)]


PLAN = {"name": f"{MARK} plan", "instruction": "Tell.", "cron": "0 0 1 1 *"}


def house(**options: Any) -> tuple[tw.App, Puppet]:
    puppet = Puppet()
    agents = [
        tw.Agent(
            "helper", tw.Prompt("helper", "Help.", model=puppet), toolkits=["spaces", "mind"], **options
        ),
        tw.Agent(
            "scribe", tw.Prompt("scribe", "Write.", model=puppet), toolkits=["channels", "memory"], **options
        ),
    ]
    return tw.App(agents=agents), puppet


@asynccontextmanager
async def lived_in(**options: Any) -> AsyncGenerator[House]:
    app, puppet = house(**options)
    async with crowd(app) as made:
        rt, ids = made.rt, made.ids
        rooms: dict[str, str] = {}
        for name, kind, members in (
            ("ada's", "private", [ids["ada"]]),
            (f"bob's {MARK}", "private", [ids["bob"]]),
            ("board", "public", []),
        ):
            space = await rt.spaces.create(name, kind, members=[*members, "helper", "scribe"])  # type: ignore[arg-type]  # written out above
            rooms[name.split()[0]] = space.id
        alone = await rt.spaces.create(f"agents' {MARK}", members=["helper", "scribe"])
        elsewhere = await rt.spaces.create("ada's alone", members=[ids["ada"]])
        rooms |= {"agents'": alone.id, "alone": elsewhere.id}
        told = House(made, puppet, rooms)
        for room, who, text in (("bob's", "bob", f"{MARK} in secret"), ("ada's", "ada", "Good morning")):
            said = await rt.spaces.say(rooms[room], ids[who], text)
            told.said[room] = said.message.id
            for run_id in said.runs.values():
                await rt.runs.wait(run_id, 20)
        await _furnish(told)
        yield told


async def _furnish(made: House) -> None:
    """Create goals, memories, plans, blocks and passages of the agents' own, and of Bob."""
    rt = made.crowd.rt
    await rt.minds.set_goals("helper", [GoalChange(id="g", description=f"{MARK} goal")])
    await rt.minds.set_memories("helper", [MemoryChange(key="k", value=f"{MARK} value")])
    await rt.minds.set_plans("helper", [PlanChange(id="p", **PLAN)])
    await rt.blocks.write("scribe", "persona", f"{MARK} persona")
    await rt.passages.add("scribe", f"{MARK} passage")
    for name, args in SETS.items():
        await made.use("bob", agent_of(name), name, **args(MARK))


def agent_of(name: str) -> str:
    """Return the name of the agent that has the tool."""
    kit = next(kit for kit, names in TOOLKITS.items() if name in names)
    return "helper" if kit in ("spaces", "mind") else "scribe"


SETS: dict[str, Callable[[str], dict[str, Any]]] = {
    "set_goals": lambda text: {"goals": [{"id": "g", "description": f"{text} goal of a person"}]},
    "set_memories": lambda text: {"memories": [{"key": "k", "value": f"{text} value of a person"}]},
    "set_plans": lambda text: {"plans": [{**PLAN, "id": "p", "name": f"{text} plan of a person"}]},
    "update_memory": lambda text: {"label": "persona", "content": f"{text} block of a person"},
    "store_memory": lambda text: {"content": f"{text} passage of a person"},
}  # fmt: skip
"""Tools that store something: their arguments, with a text to find it by."""

DROPS: dict[str, dict[str, list[str]]] = {
    "delete_goals": {"ids": ["g"]},
    "delete_memories": {"keys": ["k"]},
    "delete_plans": {"ids": ["p"]},
}
"""Tools that delete something."""

READS: dict[str, dict[str, Any]] = {"get_plans": {}, "search_memory": {"query": MARK}}
"""Tools that read stored data."""

ROOMS: dict[str, Callable[[House, str], dict[str, Any]]] = {
    "enter_space": lambda made, room: {"spaceId": made.rooms.get(room, room)},
    "read_messages": lambda made, room: {"spaceId": made.rooms.get(room, room)},
}
SPEAKS = {"send_message", "react_to_message", "leave_space"}
"""Tools of rooms: those that take a space id, and those that post."""

ENDS: dict[str, dict[str, Any]] = {"skip": {}, "do_nothing": {}}
"""Tools without an effect."""

SECTIONS = {
    "system", "identity", "spaces", "goals", "memories", "plans", "rules", "block", "channels", "conversation",
}  # fmt: skip
"""Sections of a prompt. `system`, `identity` and `rules` hold declared text; all others are checked below.

`conversation` exists only if a run was started by a message in a channel, which does not happen in a person's thread.
"""


def test_every_built_in_tool_is_in_a_table() -> None:
    tables = {*SETS, *DROPS, *READS, *ROOMS, *SPEAKS, *ENDS}
    assert tables == {name for names in TOOLKITS.values() for name in names}


async def test_every_section_of_a_prompt_is_in_a_table() -> None:
    """The agents' own prompts have all sections, including `conversation`, because they are rendered for a room."""
    async with lived_in() as made:
        names: set[str] = set()
        for agent in ("helper", "scribe"):
            room = made.rooms["bob's"]
            path = f"/api/agents/{agent}/prompt?spaceId={room}"
            shown = await made.crowd.ask(SERVICE, path)
            names |= {each["name"].split(":")[0] for each in shown["sections"]}
        assert names == SECTIONS


@pytest.mark.parametrize("agent", ["helper", "scribe"])
async def test_a_new_thread_of_a_person_shows_nothing_of_the_agents_own_or_of_others(agent: str) -> None:
    async with lived_in() as made:
        system, *read = await made.shown("ada", agent)
        assert MARK not in system
        assert MARK not in json.dumps(read)
        for room in ("bob's", "agents'"):
            assert made.rooms[room] not in system
        assert made.crowd.ids["bob"] not in system
        assert made.rooms["ada's"] in system
        assert made.rooms["board"] in system
        assert made.rooms["alone"] not in system  # the agent is not a member
        theirs, *of_bob = await made.shown("bob", agent)
        assert MARK in theirs
        assert MARK in json.dumps(of_bob)
        assert made.rooms["bob's"] in theirs
        assert made.rooms["ada's"] not in theirs
        for who in ("home", "service"):
            own, *of_own = await made.shown(who, agent)
            assert MARK in own
            assert "of a person" not in json.dumps([own, of_own])
            assert all(made.rooms[room] in own for room in ("ada's", "bob's", "agents'"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SETS, *DROPS, *READS, *ENDS])
async def test_a_tool_in_a_persons_thread_changes_nothing_that_others_are_shown(name: str) -> None:
    async with lived_in() as made:
        agent, others = agent_of(name), ("bob", "home", "service")
        before = {who: await made.shown(who, agent) for who in others}
        args = SETS[name]("mine") if name in SETS else {**DROPS, **READS, **ENDS}[name]
        answer = await made.use("ada", agent, name, **args)
        assert MARK not in json.dumps(answer)
        assert ("error" in answer) == (name in DROPS)  # only Bob's and the agent's own data are deleted
        assert {who: await made.shown(who, agent) for who in others} == before
        if name in SETS:
            theirs = await made.crowd.open("ada", agent)  # another thread of hers has it
            made.threads["ada", agent] = theirs["threadId"]
            found = await made.shown("ada", agent)
            if name == "store_memory":
                found = [await made.use("ada", agent, "search_memory", query="mine")]
            assert "mine" in json.dumps(found)


@pytest.mark.parametrize("name", [*DROPS])
async def test_a_person_gives_up_what_is_theirs(name: str) -> None:
    async with lived_in() as made:
        noun = name.removeprefix("delete_")
        await made.use("ada", "helper", f"set_{noun}", **SETS[f"set_{noun}"]("mine"))
        before = {who: await made.shown(who, "helper") for who in ("bob", "home")}
        assert await made.use("ada", "helper", name, **DROPS[name]) == {noun: []}
        assert {who: await made.shown(who, "helper") for who in ("bob", "home")} == before


ROOM_OPEN = {
    "ada's": True,
    "board": True,
    "bob's": False,
    "agents'": False,
    "alone": False,
    "spc_nowhere": False,
}


@pytest.mark.parametrize("name", [*ROOMS])
@pytest.mark.parametrize(("room", "is_open"), ROOM_OPEN.items())
async def test_a_room_is_there_if_the_person_and_the_agent_are_in_it(
    name: str, room: str, is_open: bool
) -> None:
    async with lived_in() as made:
        answer = await made.use("ada", "helper", name, **ROOMS[name](made, room))
        assert ("error" not in answer) == is_open
        if not is_open:
            absent = await made.use("ada", "helper", name, **ROOMS[name](made, "spc_none"))
            assert answer["error"] == absent["error"].replace("spc_none", made.rooms.get(room, room))
        elif room == "ada's":
            assert "Good morning" in json.dumps(answer)


@pytest.mark.parametrize(("room", "is_open"), ROOM_OPEN.items())
async def test_an_agent_speaks_in_rooms_where_its_person_may(room: str, is_open: bool) -> None:
    async with lived_in() as made:
        space_id, spaces = made.rooms.get(room, room), made.crowd.rt.spaces
        answer = await made.use("ada", "scribe", "send_message", channelId=space_id, text="Hello")
        assert ("error" not in answer) == is_open
        await made.use("ada", "helper", "enter_space", spaceId=space_id)
        spoken = await made.use("ada", "helper", "send_message", text="Hello")
        assert ("error" not in spoken) == is_open
        left = await made.use("ada", "helper", "leave_space")
        assert ("error" not in left) == is_open
        if room in made.rooms:
            told = [each.message.content for each in await spaces.history(space_id, 10)]
            assert told.count("Hello") == (2 if is_open else 0)


@pytest.mark.parametrize(("room", "is_open"), [("ada's", True), ("bob's", False)])
async def test_an_agent_reacts_in_rooms_where_its_person_may(room: str, is_open: bool) -> None:
    async with lived_in() as made:
        answer = await made.use("ada", "scribe", "react_to_message", messageId=made.said[room], emoji="+1")
        assert ("error" not in answer) == is_open
        absent = await made.use("ada", "scribe", "react_to_message", messageId="msg_none", emoji="+1")
        if not is_open:
            assert answer["error"] == absent["error"].replace("msg_none", made.said[room])


async def test_who_leaves_a_room_is_in_it_no_longer_through_the_agent() -> None:
    async with lived_in() as made:
        room = made.rooms["ada's"]
        await made.use("ada", "helper", "enter_space", spaceId=room)
        await made.crowd.rt.spaces.remove_member(room, made.crowd.ids["ada"])
        answer = await made.use("ada", "helper", "send_message", text="Still here?")
        assert answer["error"] == "You are not in a space. Call enter_space first."
        assert room not in await made.system("ada", "helper")


# ── agents with other declarations ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("agent", ["helper", "scribe"])
async def test_an_agent_without_home_tools_for_people_has_none_of_them_in_their_threads(agent: str) -> None:
    async with _bare(home_tools="none") as made:
        assert await made.system("ada", agent) in ("Help.", "Write.")
        for name in {"helper": ("get_plans", "skip"), "scribe": ("search_memory", "do_nothing")}[agent]:
            answer = await made.use("ada", agent, name, **READS.get(name, {}))
            assert "unknown" in answer["error"].lower() or "no tool" in answer["error"].lower()
        assert MARK in await made.system("service", agent)


@asynccontextmanager
async def _bare(**options: Any) -> AsyncGenerator[House]:
    """An app with data of the agents' own and none of people."""
    app, puppet = house(**options)
    async with crowd(app) as made:
        tea = await made.rt.spaces.create("tea", members=[*made.ids.values(), "helper", "scribe"])
        said = await made.rt.spaces.say(tea.id, made.ids["ada"], "Hello")  # this creates their home threads
        for run_id in said.runs.values():
            await made.rt.runs.wait(run_id, 20)
        told = House(made, puppet, {})
        await made.rt.minds.set_goals("helper", [GoalChange(id="g", description=f"{MARK} goal")])
        await made.rt.blocks.write("scribe", "persona", f"{MARK} persona")
        yield told


def without_recaps(shown: list[Any]) -> list[Any]:
    """Return what an agent sees without the messages of channels: each thread is told those that it does not have."""
    system, *read = shown
    recap = ("- [", "The last messages in ", "They are in the conversation")
    return ["\n".join([line for line in system.splitlines() if line and not line.startswith(recap)]), *read]


@pytest.mark.parametrize("agent", ["helper", "scribe"])
async def test_an_agent_with_all_home_tools_reaches_in_every_thread_what_it_reaches_at_home(
    agent: str,
) -> None:
    async with _bare(home_tools="all") as made:
        for name in [name for name in SETS if agent_of(name) == agent]:
            await made.use("ada", agent, name, **SETS[name]("mine"))
        shown = [without_recaps(await made.shown(who, agent)) for who in ("ada", "bob", "home")]
        assert "mine" in json.dumps(shown[0])
        assert shown[0] == shown[1] == shown[2]


async def test_a_shared_memory_is_everybodys_and_rooms_and_plans_are_each_persons_own() -> None:
    async with lived_in(shared_memory=True) as made:
        for who in ("ada", "bob", "home"):
            assert f"{MARK} value of a person" in await made.system(who, "helper")
            assert f"{MARK} block of a person" in await made.system(who, "scribe")
        assert made.rooms["bob's"] not in await made.system("ada", "helper")
        assert await made.use("ada", "helper", "get_plans") == {"plans": []}
        assert "of a person" not in json.dumps(await made.use("home", "helper", "get_plans"))


# ── everything that acts on behalf of a person ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["handoff", "child", "child of a child", "prompt of a child"])
async def test_what_acts_for_a_person_reaches_no_more_than_they_do(way: str) -> None:
    puppet, caller = Puppet(), _Caller()
    helper = tw.Agent(
        "helper", tw.Prompt("helper", "Help.", model=puppet), toolkits=["spaces", "mind"], **EXPOSED
    )
    call: Any = "helper" if way == "handoff" else {"name": "helper", "initUserMessageProperty": "message"}
    between = tw.Prompt("between", model=caller, tools=[call], **EXPOSED)
    middle = tw.Agent("middle", tw.Prompt("middle", model=caller, tools=[call]), **EXPOSED)
    first: Any = {
        "handoff": call,
        "child": call,
        "child of a child": "middle",
        "prompt of a child": "between",
    }[way]
    if first == "middle":
        first = {"name": "middle", "initUserMessageProperty": "message"}
    front = tw.Agent("front", tw.Prompt("front", model=caller, tools=[first]))
    async with crowd(tw.App(agents=[front, middle, helper], prompts=[between])) as made:
        room = await made.rt.spaces.create(f"secret {MARK}", members=[made.ids["bob"], "helper"])
        said = await made.rt.spaces.say(room.id, made.ids["bob"], f"{MARK} in secret")
        for run_id in said.runs.values():
            await made.rt.runs.wait(run_id, 20)
        puppet.told.clear()
        await made.rt.minds.set_goals("helper", [GoalChange(id="g", description=f"{MARK} goal")])
        asked = json.dumps({"name": "read_messages", "args": {"spaceId": room.id}})
        remembered = json.dumps({"name": "set_goals", "args": SETS["set_goals"]("mine")})
        for who, told in (("ada", False), (SERVICE, True)):
            thread_id = (await made.open(who, "front"))["threadId"]
            for each in (asked, remembered):
                run = await made.rt.threads.send(thread_id, each)
                over = await made.rt.runs.wait(run.id, 20)
                assert over.status == "completed", over.error
            assert any(MARK in text for text in puppet.told) == told
            goals = [each.description for each in await made.rt.minds.goals("helper")]
            assert goals == (["mine goal of a person"] if told else [f"{MARK} goal"])


@dataclass
class _Caller:
    """A model that passes the newest message on to its first tool."""

    name: str = "caller"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
        last = request.messages[-1]
        if last.role != "user":
            yield ModelResponse(text="Done.")
            return
        arguments = json.dumps({"message": last.content})
        yield ModelResponse(calls=(ModelCall(id="c", name=request.tools[0].name, arguments=arguments),))


async def test_a_loop_of_ones_own_reaches_what_the_person_of_its_run_may() -> None:
    async with lived_in() as made:
        rt = made.crowd.rt
        thread_id = await made.thread("ada", "helper")
        run = await rt.runs.wait((await rt.threads.send(thread_id, "Hello")).id, 20)
        toolkit = await rt.toolkit("helper", run.id)
        for room, is_open in (("ada's", True), ("bob's", False)):
            answer = await toolkit.handlers["read_messages"]({"spaceId": made.rooms[room]})
            assert ("is_error" not in answer) == is_open
        assert MARK not in json.dumps(await toolkit.handlers["set_goals"](SETS["set_goals"]("mine")))
        own = await rt.toolkit("helper")  # a run without a user
        assert MARK in json.dumps(await own.handlers["get_plans"]({}))


async def test_a_loop_of_ones_own_has_no_home_tools_where_the_agent_has_none() -> None:
    async with _bare(home_tools="none") as made:
        rt = made.crowd.rt
        run = await rt.threads.send(await made.thread("ada", "helper"), "Hello")
        await rt.runs.wait(run.id, 20)
        assert "get_plans" not in (await rt.toolkit("helper", run.id)).handlers
        assert "get_plans" in (await rt.toolkit("helper")).handlers


async def test_a_thread_that_a_service_opens_for_a_user_is_that_persons_by_either_id() -> None:
    async with lived_in() as made:
        for user_id in (made.crowd.ids["bob"], "user-bob"):
            thread = await made.crowd.open(SERVICE, "helper", userId=user_id)
            answer = await made.use_in(thread["threadId"], "get_plans")
            assert [each["name"] for each in answer["plans"]] == [f"{MARK} plan of a person"]
        # no entity, and therefore a member of no room
        unknown = await made.crowd.open(SERVICE, "helper", userId="tenant:7")
        assert await made.use_in(unknown["threadId"], "get_plans") == {"plans": []}
        refused = await made.use_in(unknown["threadId"], "read_messages", spaceId=made.rooms["ada's"])
        assert "error" in refused


# ── reads and writes of services ────────────────────────────────────────────────────────────────────────────


async def test_a_service_reads_and_sets_the_agents_own_unless_it_names_a_person() -> None:
    async with lived_in() as made, Client(str(made.crowd.client.base_url), secret_key="sk") as client:
        agents, blocks, passages = client.agents, client.blocks, client.passages
        for user_id in ("user-bob", made.crowd.ids["bob"]):
            assert [each.description for each in await agents.goals("helper", user_id=user_id)] == [
                f"{MARK} goal of a person"
            ]
            assert [each.value for each in await agents.memories("helper", user_id=user_id)] == [
                f"{MARK} value of a person"
            ]
            assert [each.name for each in await agents.plans("helper", user_id=user_id)] == [
                f"{MARK} plan of a person"
            ]
            [block] = await blocks.list("scribe", user_id=user_id)
            assert (block.content, block.owner_id) == (
                f"{MARK} block of a person",
                (await made.crowd.rt.agents.get("scribe")).id,
            )
            assert await blocks.get("scribe", "persona", user_id=user_id) == block
            [passage] = await passages.list("scribe", user_id=user_id)
            assert passage.content == f"{MARK} passage of a person"
            assert await passages.get("scribe", passage.id, user_id=user_id) == passage
            assert await passages.search("scribe", MARK, user_id=user_id) == [passage]
            assert "of a person" in (await agents.prompt("helper", user_id=user_id)).prompt
        assert "of a person" not in (await agents.prompt("helper")).prompt
        assert [each.description for each in await agents.goals("helper")] == [f"{MARK} goal"]
        assert [each.value for each in await agents.memories("helper")] == [f"{MARK} value"]
        assert [each.name for each in await agents.plans("helper")] == [f"{MARK} plan"]
        assert [each.content for each in await blocks.list("scribe")] == [f"{MARK} persona"]
        assert [each.content for each in await passages.list("scribe")] == [f"{MARK} passage"]
        with pytest.raises(tw.errors.NotFound):
            await passages.get("scribe", passage.id)
        assert list(await made.crowd.rt.minds.people("helper")) == [made.crowd.ids["bob"]]
        assert list(await made.crowd.rt.minds.people("scribe")) == [made.crowd.ids["bob"]]


async def test_what_a_service_sets_for_a_person_is_theirs_alone() -> None:
    async with lived_in() as made, Client(str(made.crowd.client.base_url), secret_key="sk") as client:
        before = {
            who: [await made.shown(who, each) for each in ("helper", "scribe")] for who in ("bob", "home")
        }
        agents, blocks, passages, ada = client.agents, client.blocks, client.passages, "user-ada"
        [goal] = await agents.set_goals("helper", [GoalChange(description="mine")], user_id=ada)
        await agents.set_memories("helper", [MemoryChange(key="mine", value="tea")], user_id=ada)
        await blocks.write("scribe", "mine", "cake", user_id=ada)
        passage = await passages.add("scribe", "mine", user_id=ada)
        for agent in ("helper", "scribe"):
            assert "mine" in await made.system("ada", agent)
        with pytest.raises(tw.errors.InvalidRequest, match="has no readers"):
            await blocks.write("scribe", "mine", "cake", ["helper"], user_id=ada)
        headers, body = SERVICE, {"plans": [PLAN]}
        refused = await made.crowd.client.post(
            "/api/agents/helper/plans?userId=user-ada", headers=headers, json=body
        )
        assert refused.status_code == 400  # a person's plans are made in their threads only
        await agents.drop_goal("helper", goal.id, user_id=ada)
        await agents.drop_memory("helper", "mine", user_id=ada)
        await blocks.drop("scribe", "mine", user_id=ada)
        await passages.drop("scribe", passage.id, user_id=ada)
        for agent in ("helper", "scribe"):
            assert "mine" not in await made.system("ada", agent)
            assert list(await made.crowd.rt.minds.people(agent)) == [made.crowd.ids["bob"]]
        after = {
            who: [await made.shown(who, each) for each in ("helper", "scribe")] for who in ("bob", "home")
        }
        assert after == before
        await agents.drop_plan("helper", "p", user_id="user-bob")
        assert list(await agents.plans("helper", user_id="user-bob")) == []
        assert [each.name for each in await agents.plans("helper")] == [f"{MARK} plan"]
