"""Processes in which an agent passes tenvs to a child, and that kill themselves at a commit."""

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel

import toolwright as tw
from tests.crash.dying import at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.testing import ScriptedModel

KEY = "sk-0123456789-of-the-caller"
TENVS: dict[str, Any] = {"shop": "tea", "api_key": KEY}


LOOKS: list[object] = [{"calls": [{"name": "look", "args": {}}]}, {"text": "Looked."}]


class Needs(BaseModel):
    shop: str
    api_key: Annotated[str, tw.Secret]
    size: int


@tw.tool(description="Looks.", read_only=True, tenvs=Needs)
async def look(state: tw.ThreadState) -> str:
    right = state.tenvs.api_key == KEY
    return f"{state.tenvs.shop} {state.tenvs.size} {right}"


def catalog() -> Catalog:
    called: Any = {"name": "worker", "tenvs": {"size": 3}, "passTenvs": ["shop", "api_key"]}
    worker = tw.Agent(
        "worker",
        instructions="You look.",
        model=ScriptedModel(LOOKS),
        tools=[look],
        expose_as_tool=True,
        tool_description="Looks.",
    )
    turns: list[object] = [{"calls": [{"name": "worker", "args": {"message": "Look"}}]}, {"text": "Done."}]
    return Catalog(
        agents=[tw.Agent("boss", instructions="Lead.", model=ScriptedModel(turns), tools=[called]), worker]
    )


async def run(order: Order) -> None:
    async with at_work(order, catalog()) as runtime, asyncio.timeout(20):
        if not await runtime.threads.list():
            await runtime.threads.create("boss", tenvs=TENVS)
        [boss] = [thread for thread in await runtime.threads.list() if thread.parent_id is None]
        if not await runtime.runs.list(thread_id=boss.id):
            await runtime.threads.send(boss.id, "Go")
        [run] = await runtime.runs.list(thread_id=boss.id)
        await runtime.runs.wait(run.id, 20)
