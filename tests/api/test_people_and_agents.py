"""People and agents: which values a person can set in an agent's threads, and what they reach through it (D27)."""

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

import toolwright as tw
from tests import journals
from tests.api.documented import document
from tests.api.rig import JSON, at_work, read
from tests.api.town import person
from tests.mcp.server_rig import Host, end_parts
from tests.web.signing import SECRET
from toolwright.adapters.system import SystemClock
from toolwright.core.mcp.offered import McpPermissions
from toolwright.core.model import Model
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel
from toolwright.web.auth.access import has_claim
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret
from toolwright.web.gateway import create_gateway
from toolwright.web.mcp.server import McpEndpoint
from toolwright.web.options import GatewayOptions

pytestmark = pytest.mark.anyio

SERVICE = {"x-secret-key": "sk"}


@dataclass
class Crowd:
    """A served app and its people, by name."""

    rt: Runtime
    client: httpx2.AsyncClient
    application: FastAPI
    ids: dict[str, str] = field(default_factory=dict[str, str])

    async def ask(self, who: str | dict[str, str], path: str, body: Any = None, status: int = 200) -> JSON:
        """Send a GET, or a POST with the body, as the person of that name or with these headers."""
        headers = person(f"user-{who}") if isinstance(who, str) else who
        if body is None:
            return read(await self.client.get(path, headers=headers), status)
        return read(await self.client.post(path, headers=headers, json=body), status)

    async def open(
        self, who: str | dict[str, str], agent: str, status: int = 201, **more: Any
    ) -> JSON:  # any JSON
        return await self.ask(who, "/api/threads", {"agentId": agent, **more}, status)


@asynccontextmanager
async def crowd(
    app: tw.App,
    model: Model | None = None,
    people: Sequence[str] = ("ada", "bob"),
    settings: tw.Settings | None = None,
) -> AsyncGenerator[Crowd]:
    """Serve the app with people who sign in with tokens."""
    options = GatewayOptions(
        clock=SystemClock(),
        secret_keys=("sk",),
        public_keys=("pk",),
        mcp=partial(McpEndpoint, permissions=McpPermissions(people="all")),
        verify_token=SharedSecret(SECRET, ExpectedClaims(claim="sub"), SystemClock()),
    )
    async with journals.runtime(app, settings, model=model) as rt:
        ids = {name: (await rt.entities.create(external_id=f"user-{name}")).id for name in people}
        application = create_gateway(rt, options)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with at_work(application, options, listener) as (_, url):
                hooks = {"response": [document().check]}
                async with httpx2.AsyncClient(
                    base_url=url, event_hooks=hooks, timeout=60, verify=False
                ) as client:
                    try:
                        yield Crowd(rt, client, application, ids)
                    finally:
                        await end_parts(application.state.serving)


# ── values that the app sets ────────────────────────────────────────────────────────────────────────────────

EXPOSED: dict[str, Any] = {"expose_as_tool": True, "tool_description": "It answers."}
SETS: dict[str, Any] = {"tenvs": {"tenant": "acme"}}


def reaching(way: str) -> tw.App:
    """An app whose agent `front` reaches, in that way, a prompt or an agent that sets the tenv `tenant`."""
    below, target = tw.Prompt("below", **EXPOSED, **SETS), tw.Prompt("target", **SETS)
    plain = tw.Prompt("plain")
    agents: dict[str, list[tw.Agent]] = {
        "agent": [tw.Agent("front", plain, **SETS)],
        "prompt": [tw.Agent("front", tw.Prompt("own", **SETS))],
        "side_b": [tw.Agent("front", plain, tw.Prompt("other", **SETS), type="dual_ai")],
        "prompt tool": [tw.Agent("front", tw.Prompt("own", tools=["below"]))],
        "prompt tool of side_b": [
            tw.Agent("front", plain, tw.Prompt("other", tools=["below"]), type="dual_ai")
        ],
        "handoff": [
            tw.Agent("front", tw.Prompt("own", tools=["back"])),
            tw.Agent("back", target, **EXPOSED),
        ],
        "second handoff": [
            tw.Agent("front", tw.Prompt("own", tools=["middle"]), **EXPOSED),
            tw.Agent("middle", tw.Prompt("mid", tools=["back", "front"]), **EXPOSED),
            tw.Agent("back", tw.Prompt("last", tools=["below"]), **EXPOSED),
        ],
        "passed to a child": [
            tw.Agent("front", tw.Prompt("own", tools=[{"name": "back", "passTenvs": ["tenant"]}])),
            tw.Agent("back", target, **EXPOSED),
        ],
        "passed to a child below": [
            tw.Agent("front", tw.Prompt("own", tools=[{"name": "middle", "passTenvs": ["tenant"]}])),
            tw.Agent(
                "middle",
                tw.Prompt("mid", tools=[{"name": "back", "passTenvs": ["tenant"]}]),
                **EXPOSED,
            ),
            tw.Agent("back", target, **EXPOSED),
        ],
    }  # fmt: skip
    return tw.App(agents=agents[way], prompts=[below])


WAYS = (
    "agent", "prompt", "side_b", "prompt tool", "prompt tool of side_b", "handoff", "second handoff",
    "passed to a child", "passed to a child below",
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_a_person_replaces_no_tenv_that_the_app_sets_anywhere_the_agent_reaches(way: str) -> None:
    async with crowd(reaching(way)) as made:
        evil = {"tenant": "evilcorp"}
        shown = await made.open("ada", "front", 403, tenvs=evil)
        assert shown == {"error": "This agent has set 'tenant': leave it out of tenvs."}
        await made.open("ada", "front", tenvs={"city": "Ulm"})
        await made.open(SERVICE, "front", tenvs=evil)


async def test_a_child_that_is_not_passed_a_tenv_keeps_its_own_whatever_a_person_brings() -> None:
    agents = [
        tw.Agent("front", tw.Prompt("own", tools=[{"name": "back", "passTenvs": ["city"]}]), tenvs={"city": "Ulm"}),
        tw.Agent("back", tw.Prompt("target", **SETS), **EXPOSED),
    ]  # fmt: skip
    async with crowd(tw.App(agents=agents)) as made:
        await made.open("ada", "front", tenvs={"tenant": "mine"})


@pytest.mark.parametrize("call", ["back", {"name": "back"}], ids=["handoff", "child"])
async def test_a_person_sets_no_env_that_an_agent_behind_has_set_and_does_not_open(call: Any) -> None:
    """Children and the targets of handoffs read the thread's values before their own."""
    back: dict[str, Any] = {**EXPOSED, "env": {"REGION": "eu", "CITY": "Ulm"}}
    agents = [
        tw.Agent("front", tw.Prompt("own", tools=[call], env={"NAME": "n"}), user_env=["REGION", "CITY", "NAME"]),
        tw.Agent("back", tw.Prompt("target"), user_env=["CITY"], **back),
    ]  # fmt: skip
    async with crowd(tw.App(agents=agents)) as made:
        await made.open("ada", "front", 403, env={"REGION": "us"})
        thread_id = (await made.open("ada", "front", env={"CITY": "Bonn", "NAME": "me"}))["threadId"]
        headers = person("user-ada")
        for name, status in (("REGION", 403), ("CITY", 200)):
            answer = await made.client.patch(
                f"/api/threads/{thread_id}/env", headers=headers, json={"env": {name: "x"}}
            )
            assert answer.status_code == status


# ── opening threads ─────────────────────────────────────────────────────────────────────────────────────────

KITS = ("spaces", "mind", "channels", "memory")


@pytest.mark.parametrize("kit", KITS)
def test_an_agent_with_a_toolkit_is_open_to_members_and_any_other_to_everyone(kit: str) -> None:
    assert tw.Agent("a", "p").open_to == "everyone"
    assert tw.Agent("a", "p", toolkits=[kit]).open_to == "members"
    assert tw.Agent("a", "p", toolkits=[kit], open_to="everyone").open_to == "everyone"
    assert tw.Agent("a", "p", toolkits=[kit], open_to=("role=admin",)).open_to == ("role=admin",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"open_to": "all"}, "open_to must be 'everyone', 'members', 'nobody' or a list of claims, not 'all'."),
        ({"open_to": 5}, "open_to must be a list of claims, not 5."),
        ({"open_to": [5]}, "open_to must be a list of claims, not one with 5."),
        ({"open_to": []}, "open_to must list at least one claim, each with a name, such as 'role=admin'."),
        ({"open_to": ["=admin"]}, "open_to must list at least one claim, each with a name, such as 'role=admin'."),
        ({"home_tools": "some"}, "home_tools must be 'own', 'all' or 'none', not 'some'."),
        ({"shared_memory": 1}, "shared_memory must be true or false, not 1."),
    ],
)  # fmt: skip
def test_an_invalid_declaration_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    with pytest.raises(tw.errors.DefinitionError) as refused:
        tw.Agent("a", "p", **options)
    assert refused.value.message == f"Agent 'a': {words}"


def agent(name: str, **options: Any) -> tw.Agent:
    return tw.Agent(name, tw.Prompt(name), **{**EXPOSED, **options})


TOWN = [
    agent("everyone"),
    agent("members", open_to="members"),
    agent("remembers", toolkits=["mind"]),
    agent("nobody", open_to="nobody"),
    agent("admins", open_to=["role=admin", "staff"]),
]
OPEN = {  # Ada shares a space with two of them; Bob shares none; Eve has the claims
    "ada": {"everyone", "members", "remembers"},
    "bob": {"everyone"},
    "eve": {"everyone", "admins"},
    "ann": {"everyone", "admins"},
}
CLAIMS: dict[str, dict[str, Any]] = {
    "ada": {"role": "user", "staff": False},
    "bob": {"role": ["user"], "staff": ""},
    "eve": {"role": ["user", "admin"]},
    "ann": {"staff": "yes"},
}


@asynccontextmanager
async def small_town() -> AsyncGenerator[Crowd]:
    async with crowd(tw.App(agents=TOWN), ScriptedModel([{"text": "Yes."}]), [*OPEN]) as made:
        ids = made.ids
        await made.rt.spaces.create("Tea", members=[ids["ada"], "members", "remembers"])
        await made.rt.spaces.create("Cake", members=[ids["ada"], ids["bob"]])
        await made.rt.spaces.create("Board", "public", members=["members", "remembers"])
        yield made


def signed_in(who: str) -> dict[str, str]:
    return person(f"user-{who}", **CLAIMS[who])


@pytest.mark.parametrize("who", [*OPEN])
async def test_a_thread_is_opened_with_agents_that_are_open_to_the_person_and_the_others_are_not_there(
    who: str,
) -> None:
    async with small_town() as made:
        opened: set[str] = set()
        for each in TOWN:
            for name in (each.name, each.id):
                body = {"agentId": name}
                answer = await made.client.post("/api/threads", json=body, headers=signed_in(who))
                if answer.status_code == 201:
                    opened.add(each.name)
                else:
                    absent = await made.open(signed_in(who), "nowhere", 404)
                    assert read(answer, 404) == {"error": absent["error"].replace("'nowhere'", repr(name))}
            await made.open(SERVICE, each.name, userId=made.ids[who])
        assert opened == OPEN[who]


async def test_leaving_the_last_shared_space_closes_the_agent() -> None:
    async with small_town() as made:
        await made.open("ada", "members")
        [space] = [each for each in await made.rt.spaces.list() if each.name == "Tea"]
        await made.rt.spaces.remove_member(space.id, made.ids["ada"])
        await made.open("ada", "members", 404)


async def test_a_person_who_joins_a_public_space_gets_no_access_to_its_agents() -> None:
    async with small_town() as made:
        [board] = [each for each in await made.rt.spaces.list() if each.name == "Board"]
        await made.ask("bob", f"/api/spaces/{board.id}/messages", {"content": "Hello"}, 201)
        assert await made.rt.spaces.is_member(board.id, made.ids["bob"])
        await made.open("bob", "members", 404)
        dm = await made.rt.spaces.create(kind="dm", members=[made.ids["bob"], "members"])
        await made.open("bob", "members")
        await made.open("bob", "remembers", 404)
        assert dm.kind == "dm"


async def test_the_api_lists_to_whom_each_agent_is_open() -> None:
    async with small_town() as made:
        shown = (await made.ask(SERVICE, "/api/agents"))["agents"]
        assert {each["name"]: each["openTo"] for each in shown} == {
            "everyone": "everyone", "members": "members", "remembers": "members", "nobody": "nobody",
            "admins": ["role=admin", "staff"],
        }  # fmt: skip
        config = {"openTo": ["tier=2"], "homeTools": "none", "sharedMemory": True}
        body = {"name": "scout", "config": config}
        saved = (await made.ask(SERVICE, "/api/agents", body, 201))["agent"]
        assert {name: saved[name] for name in config} == config
        await made.open("ada", "scout", 404)
        await made.open(person("user-ada", tier=2), "scout")
        plain = (await made.ask(SERVICE, "/api/agents", {"name": "plain", "config": {}}, 201))["agent"]
        assert (plain["openTo"], plain["homeTools"], plain["sharedMemory"]) == ("members", "own", False)
        faulty = {"name": "x", "config": {"openTo": "all", "homeTools": 1, "sharedMemory": "no"}}
        refused = await made.ask(SERVICE, "/api/agents", faulty, 400)
        paths = {each["path"] for each in refused["details"]}
        assert paths == {"config.openTo", "config.homeTools", "config.sharedMemory"}


@pytest.mark.parametrize("options", [{"home_tools": "all"}, {"shared_memory": True}])
@pytest.mark.parametrize("call", ["inner", {"name": "inner"}], ids=["handoff", "child"])
async def test_an_agent_that_leads_to_one_that_shows_more_is_open_to_those_to_whom_both_are(
    call: Any, options: dict[str, Any]
) -> None:
    front = tw.Agent("front", tw.Prompt("own", tools=[call]))
    inner = agent("inner", toolkits=["mind"], **options)
    async with crowd(tw.App(agents=[front, inner])) as made:
        await made.rt.spaces.create("Tea", members=[made.ids["ada"], "inner"])
        await made.open("ada", "front")
        await made.open("bob", "front", 404)


CLAIMED: list[tuple[dict[str, Any], str, bool]] = [
    ({"role": "admin"}, "role=admin", True),
    ({"role": "admins"}, "role=admin", False),
    ({"role": ["a", "admin"]}, "role=admin", True),
    ({"role": ["a", ["admin"]]}, "role=admin", False),
    ({"role": {"admin": True}}, "role=admin", False),
    ({"role": {"admin": True}}, "role.admin", True),
    ({"realm": {"roles": ["admin"]}}, "realm.roles=admin", True),
    ({"https://app.test/role": "admin"}, "https://app.test/role=admin", True),
    ({"tier": 2}, "tier=2", True),
    ({"tier": 2}, "tier=02", False),
    ({"paid": True}, "paid=true", True),
    ({"paid": True}, "paid", True),
    ({"role": "a=b"}, "role=a=b", True),
    ({"paid": None}, "paid", False),
    ({"paid": False}, "paid", False),
    ({"paid": ""}, "paid", False),
    ({"paid": []}, "paid", False),
    ({"paid": {}}, "paid", False),
    ({"paid": 0}, "paid", True),
    ({}, "paid", False),
    ({}, "role=admin", False),
    ({"role": None}, "role=None", False),
    ({"role": None}, "role=null", False),
]


@pytest.mark.parametrize(("claims", "wanted", "has"), CLAIMED)
def test_a_claim_is_wanted_by_its_name_or_with_a_value(claims: Any, wanted: str, has: bool) -> None:
    assert has_claim(claims, wanted) is has


# ── the same rules on other interfaces ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("who", ["ada", "bob", "eve"])
async def test_a_host_sees_and_calls_only_agents_that_are_open_to_its_user(who: str) -> None:
    """A call of an agent over `/mcp` opens a child thread with it."""
    async with small_town() as made:
        host = Host(made.rt, str(made.client.base_url), made.application)
        async with host.wire("legacy", signed_in(who)) as wire:
            listed = {each["name"] for each in (await wire.request("tools/list"))["result"]["tools"]}
            assert listed == OPEN[who]
            for each in TOWN:
                answer = await wire.call(each.name, {"message": "Hello"})
                assert ("result" in answer) == (each.name in OPEN[who])
                if each.name not in OPEN[who]:
                    assert answer["error"]["message"] == f"Unknown tool: {each.name}"
        async with host.wire("legacy", SERVICE) as wire:
            listed = {each["name"] for each in (await wire.request("tools/list"))["result"]["tools"]}
            assert listed == {each.name for each in TOWN}


DELEGATES: dict[str, Any] = {
    "fixed": {"const": "inner"},
    "one of some": {"type": "string", "enum": ["anonymous", "inner"]},
    "any": {"type": "string"},
}


def sums_up(delegate: Any) -> tw.Registry:
    """Return a registry with one tool whose calls have that delegate."""
    properties = {"text": {"type": "string"}, "_delegate": delegate, "_output": {"type": "object"}}
    registry = tw.Registry()
    registry.tool("sum_up", {"type": "object", "description": "Sum up.", "properties": properties})
    return registry


@pytest.mark.parametrize("delegate", DELEGATES.values(), ids=DELEGATES)
@pytest.mark.parametrize("configured", [False, True])
async def test_a_delegate_that_shows_more_is_reached_too(delegate: Any, configured: bool) -> None:
    inner = agent("inner", toolkits=["mind"], home_tools="all")
    others = [agent("other")] if configured else [inner]
    registry = sums_up({"type": "string"} if configured else delegate)
    front = tw.Agent("front", tw.Prompt("own", tools=["sum_up"]))
    async with crowd(tw.App(agents=[front, *others], registry=registry)) as made:
        if configured:
            await made.rt.agents.save("inner", {"homeTools": "all"})
        await made.rt.spaces.create("Tea", members=[made.ids["ada"], "inner"])
        await made.open("ada", "front")
        await made.open("bob", "front", 404)


def shortened(text: str) -> dict[str, str]:
    return {"short": text}


@pytest.mark.parametrize("delegate", DELEGATES.values(), ids=DELEGATES)
async def test_a_host_delegates_to_agents_that_are_open_to_its_user_alone(delegate: Any) -> None:
    registry, is_fixed = sums_up(delegate), "const" in delegate
    if not is_fixed:
        registry.handler("sum_up", shortened)  # the handler makes it a tool that is offered to hosts
    inner = agent("inner", open_to="nobody")
    async with crowd(tw.App(agents=[inner], registry=registry), ScriptedModel([{"text": "{}"}])) as made:
        host = Host(made.rt, str(made.client.base_url), made.application)
        chosen = {} if is_fixed else {"_delegate": "inner"}
        async with host.wire("legacy", person("user-ada")) as wire:
            listed = [each["name"] for each in (await wire.request("tools/list"))["result"]["tools"]]
            assert listed == ([] if is_fixed else ["sum_up"])
            answer = await wire.call("sum_up", {"text": "long", **chosen})
            assert answer["error"]["message"] == "Unknown tool: sum_up"
            if not is_fixed:
                assert "result" in await wire.call("sum_up", {"text": "long"})
        async with host.wire("legacy", SERVICE) as wire:
            assert "result" in await wire.call("sum_up", {"text": "long", **chosen})
