"""People and agents: what a person may bring to an agent's threads, and what they reach through it (D27)."""

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

import toolwright as tw
from tests.api.documented import document
from tests.api.rig import JSON, at_work, read
from tests.api.town import person
from tests.web.signing import SECRET
from toolwright import testing
from toolwright.adapters.system import SystemClock
from toolwright.core.model import Model
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel
from toolwright.web.auth.jwt_rules import Wanted
from toolwright.web.auth.persons import SharedSecret
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions

pytestmark = pytest.mark.anyio

SERVICE = {"x-secret-key": "sk"}


@dataclass
class Crowd:
    """A served app and its people by name."""

    rt: Runtime
    client: httpx.AsyncClient
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
    app: tw.App, model: Model | None = None, people: Sequence[str] = ("ada", "bob")
) -> AsyncGenerator[Crowd]:
    """The app served, with people who sign in with tokens."""
    options = GatewayOptions(
        clock=SystemClock(),
        secret_keys=("sk",),
        public_keys=("pk",),
        verify_token=SharedSecret(SECRET, Wanted(claim="sub"), SystemClock()),
    )
    async with testing.runtime(app, model=model or ScriptedModel([{"text": "Yes."}])) as rt:
        ids = {name: (await rt.entities.create(external_id=f"user-{name}")).id for name in people}
        application = create_gateway(rt, options)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with at_work(application, options, listener) as (_, url):
                hooks = {"response": [document().check]}
                async with httpx.AsyncClient(
                    base_url=url, event_hooks=hooks, timeout=10, verify=False
                ) as client:
                    yield Crowd(rt, client, ids)


# ── what the app sets ───────────────────────────────────────────────────────────────────────────────────────

EXPOSED: dict[str, Any] = {"expose_as_tool": True, "tool_description": "It answers."}
SETS: dict[str, Any] = {"tenvs": {"tenant": "acme"}}


def reaching(way: str) -> tw.App:
    """An app whose agent `front` reaches a prompt or an agent that sets the tenv `tenant`, in that way."""
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
