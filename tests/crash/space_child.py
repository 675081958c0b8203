"""Processes in which agents talk in a space and ask for a confirmation, and that kill themselves at a commit."""

import asyncio
from typing import Any

import toolwright as tw
from tests.crash.dying import at_work, no_work_left
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.threads.event import Topic
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "host": [
        {
            "when": "[Tool Result: confirmAction]",
            "calls": [{"name": "send_message", "args": {"text": "Booked"}}],
        },
        {"when": '{"messageId":', "text": "Said."},
        {
            "calls": [
                {"name": "enter_space", "args": {"spaceId": "tea"}},
                {"name": "confirmAction", "args": {}},
                {"name": "send_message", "args": {"text": "Moment"}},
            ]
        },
    ],
    "scout": [{"calls": [{"name": "skip", "args": {"reason": "Not for me"}}]}],
}


def catalog() -> Catalog:
    confirm = tw.Tool.from_config(
        {
            "name": "confirmAction",
            "description": "Ask them.",
            "inputSchema": {"type": "object"},
            "executionType": "space",
            "isAsync": True,
        }
    )
    model = ScriptedModel(SCRIPTS)
    kits: Any = {"toolkits": ["spaces"]}
    return Catalog(
        agents=[tw.Agent(n, tw.Prompt(n, "Talk.", model=model, tools=[confirm]), **kits) for n in SCRIPTS]
    )


async def run(order: Order) -> None:
    async with at_work(order, catalog()) as runtime, asyncio.timeout(20):
        await talk(runtime)
        await no_work_left(order)


async def talk(runtime: Runtime) -> None:
    """Do the remaining steps, and wait until all messages have been posted."""
    husam = await runtime.entities.create(external_id="husam", display_name="Husam")
    spaces = await runtime.spaces.list()
    if not spaces:
        await runtime.spaces.create("Tea", id="tea", members=[husam.id, "host", "scout"])
    if not await runtime.spaces.messages("tea"):
        await runtime.spaces.say("tea", husam.id, "Book")
    following = runtime.events.follow(Topic(kind="space", id="tea"), after=0)
    async for _ in following:  # any event can be the awaited one
        for call in await runtime.calls.list():
            await runtime.calls.submit(call.run_id, call.id, {"confirmed": True})
        if "Booked" in [shown.message.content for shown in await runtime.spaces.messages("tea")]:
            return
