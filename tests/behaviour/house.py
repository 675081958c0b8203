"""Entry point for the tests of S3: a served app whose agent `host` shares a space with Husam."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

import toolwright as tw
from tests import journals
from tests.api.town import SERVICE, person
from tests.client.rig import served
from tests.web.signing import SECRET
from toolwright.adapters.system import SystemClock
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ManualMotor, ScriptedModel
from toolwright.web.auth.person_tokens import ExpectedClaims, SharedSecret

JSON = dict[str, Any]  # untyped on purpose
Config = Mapping[str, Any]  # a tool configuration, as printed in the document
HUSAM = person("husam")
ENTER: JSON = {"name": "enter_space", "args": {"spaceId": "tea"}}


def calls(*asked: JSON, text: str = "") -> JSON:
    """Return a model turn that makes these calls."""
    return {"calls": list(asked), **({"text": text} if text else {})}


def call(name: str, **args: Any) -> JSON:  # any JSON
    return {"name": name, "args": args}


def tool(config: Config, schema: Config | None = None, **fields: Any) -> tw.Tool:  # of that configuration
    """Return the tool of that configuration, with the required fields that the configuration omits."""
    required = {"description": "A tool of the document.", "inputSchema": schema or {"type": "object"}}
    return tw.Tool.from_config({**required, **config, **fields})


@dataclass
class House:
    """The service, Husam, and the space `tea` of which he and the agents are members."""

    rt: Runtime
    url: str
    http: httpx2.AsyncClient
    entity_id: str  # Husam's entity id

    async def get(self, path: str, headers: Mapping[str, str] = SERVICE, **query: str) -> Any:  # any JSON
        answered = await self.http.get(path, headers=headers, params=query)
        assert answered.status_code == 200, answered.text
        return answered.json()

    async def post(self, path: str, body: JSON, status: int, headers: Mapping[str, str] = SERVICE) -> Any:
        answered = await self.http.post(path, headers=headers, json=body)
        assert answered.status_code == status, answered.text
        return answered.json()

    async def says(self, text: str) -> list[str]:
        """Post a message as Husam. Return the runs that read it."""
        said = await self.post("/api/spaces/tea/messages", {"content": text}, 201, HUSAM)
        return [each["runId"] for each in said["runs"]]

    async def said(self) -> list[JSON]:
        """Return the messages of the space, as Husam reads them."""
        return list((await self.get("/api/spaces/tea/messages", HUSAM))["messages"])

    async def shown(self) -> JSON:
        """Return the call data in the last message."""
        return dict((await self.said())[-1]["metadata"])

    async def calls(self, status: str = "waiting,pending,resolved") -> list[JSON]:
        return list((await self.get("/api/calls", status=status))["calls"])

    async def submit(self, made: JSON, result: object, headers: Mapping[str, str] = SERVICE) -> None:
        """Submit a call's result."""
        body = {"callId": made["callId"], "result": result}
        taken = await self.post(f"/api/runs/{made['runId']}/tool-results", body, 200, headers)
        assert taken == {"success": True, "agentEntityId": made["agentEntityId"]}

    async def mind(self, name: str = "host") -> list[str]:
        """Return the content of each message in the agent's home thread."""
        home = (await self.rt.agents.get(name)).home_thread_id
        return [each["content"] for each in (await self.get(f"/api/threads/{home}/messages"))["messages"]]

    async def inbox(self, type_: str) -> list[JSON]:
        """Return the events of that type in the agent's inbox."""
        events = (await self.get("/api/agents/host/inbox"))["events"]
        return [event for event in events if event["type"] == type_]

    async def events(self, last: str) -> list[JSON]:
        """Return the events of the space that Husam's browser receives, up to the first such event."""
        token = (await self.post("/api/stream-tokens", {}, 200, HUSAM))["token"]
        query = {"token": token, "after": "0"}
        found: list[JSON] = []
        async with (
            asyncio.timeout(30),
            self.http.stream("GET", "/api/spaces/tea/stream", params=query) as stream,
        ):
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line[6:]))
                    if found[-1]["type"] == last:
                        return found
        raise AssertionError("a stream has no end")


def app(turns: Any, tools: Sequence[tw.Tool], others: Sequence[str] = ()) -> tw.App:  # a script
    """Return an app of the agent `host`, and of others like it."""
    model = ScriptedModel(turns)
    agents = [
        tw.Agent(name, tw.Prompt(name, "You host.", model=model, tools=tools), toolkits=["spaces", "mind"])
        for name in ("host", *others)
    ]
    return tw.App(agents=agents)


@asynccontextmanager
async def opened(rt: Runtime, agents: Sequence[str] = ("host",)) -> AsyncGenerator[House]:
    """Run the runtime on a loopback port, with keys, Husam and the space."""
    judge = SharedSecret(SECRET, ExpectedClaims(claim="sub"), SystemClock())
    keys: JSON = {"secret_keys": ("sk",), "public_keys": ("pk",), "verify_token": judge}
    async with served(rt, **keys) as port, httpx2.AsyncClient(timeout=30) as http:
        http.base_url = httpx2.URL(f"http://127.0.0.1:{port}")
        husam: JSON = {"type": "human", "externalId": "husam", "displayName": "Husam"}
        house = House(rt, str(http.base_url), http, "")
        house.entity_id = (await house.post("/api/entities", husam, 201))["entity"]["id"]
        await house.post("/api/spaces", {"id": "tea", "name": "Tea"}, 201)
        for member in (house.entity_id, *agents):
            await house.post("/api/spaces/tea/members", {"entityId": member}, 200)
        yield house


@asynccontextmanager
async def by_hand(
    turns: Any, tools: Sequence[tw.Tool], others: Sequence[str] = ()
) -> AsyncGenerator[tuple[House, ManualMotor]]:
    """A house whose agents run only when the motor is turned, on a clock that stands still until then."""
    async with (
        journals.by_hand(app(turns, tools, others)) as (rt, motor),
        opened(rt, ("host", *others)) as house,
    ):
        yield house, motor


@asynccontextmanager
async def at_work(turns: Any, tools: Sequence[tw.Tool]) -> AsyncGenerator[House]:
    """A house whose agent runs on its own."""
    async with journals.runtime(app(turns, tools)) as rt, opened(rt) as house:
        yield house
