"""Processes in which a message passes from agent to agent, with a dm and a reaction, and that kill themselves."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator

import toolwright as tw
from tests.crash.dying import at_work, no_work_left
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.json_value import JSON
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.core.spaces import SpaceKind
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime

CREW = ("michael", "jim", "dwight")
QUESTION = re.compile(r'\[Pam: "Ideas\?"\] \([^\n]*messageId: (\w+)')


class Staff:
    """A model that reacts to what its agent has just read, whether it arrived in one message or in two."""

    name = "staff"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
        last = request.messages[-1]
        calls = self._calls(request, last.content) if last.role == "user" else []
        made = [
            ModelCall(id=f"c{n}", name=name, arguments=json.dumps(args))
            for n, (name, args) in enumerate(calls)
        ]
        yield ModelResponse(calls=tuple(made)) if made else ModelResponse(text=".")

    def _calls(self, request: ModelRequest, text: str) -> list[tuple[str, dict[str, JSON]]]:
        who = request.who[0]
        calls: list[tuple[str, dict[str, JSON]]] = []
        if "Psst" in text:
            calls.append(("send_message", {"channelId": "dm", "text": "Yes?"}))
        if "Ideas?" not in text:
            return calls
        if who == "michael":
            question = QUESTION.search("\n".join([each.content for each in request.messages]))
            assert question is not None, "the inbox has what was said"
            calls.append(("react_to_message", {"messageId": question[1], "emoji": "🎉"}))
        if who == "jim":
            calls.append(("send_message", {"channelId": "dm", "text": "Psst"}))
        return [*calls, ("send_message", {"channelId": "general", "text": f"{who}!"})]


def catalog() -> Catalog:
    model = Staff()
    return Catalog(
        agents=[tw.Agent(name, tw.Prompt(name, "Be.", model=model), toolkits=["channels"]) for name in CREW]
    )


async def run(order: Order) -> None:
    async with at_work(order, catalog()) as runtime, asyncio.timeout(20):
        await talk(runtime)
        await no_work_left(order)


async def talk(runtime: Runtime) -> None:
    """Do the remaining steps, and wait until all messages have been posted."""
    pam = await runtime.entities.create(external_id="pam", display_name="Pam")
    rooms: list[tuple[str, SpaceKind, list[str]]] = [
        ("general", "private", [pam.id, *CREW]),
        ("dm", "dm", ["jim", "dwight"]),
    ]
    made = {space.id for space in await runtime.spaces.list()}
    for space_id, kind, members in rooms:
        if space_id not in made:
            await runtime.spaces.create(space_id, kind, id=space_id, members=members, delivery="sequential")
    if not await runtime.spaces.messages("general"):
        await runtime.spaces.say("general", pam.id, "Ideas?")
    async for _ in runtime.events.follow(Topic(kind="spaces", id=""), after=0):
        said = [len(await runtime.spaces.messages(space_id)) for space_id, _, _ in rooms]
        if said == [1 + len(CREW), 2]:
            return
