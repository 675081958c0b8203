"""Processes that lead a conversation too long for its model, and that kill themselves at a commit of a summary."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import toolwright as tw
from tests.crash.dying import Witness, at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.core.errors import ContextTooLong
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.core.threads.compaction import message_tokens, text_tokens
from toolwright.core.threads.run import Usage
from toolwright.runtime.runtime import Runtime

LIMIT = 4_000
TURNS = 5
COST = 0.25
LINE = "word " * 600  # 750 tokens


class Narrow:
    """Refuses more than its limit without a number; calls a tool first, then says that it is done."""

    name = "test:narrow"

    def __init__(self, requests: Witness) -> None:
        self._requests = requests

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        tokens = text_tokens(request.system) + sum(map(message_tokens, request.messages))
        if tokens > LIMIT:
            raise ContextTooLong("Too long.")
        usage = Usage(input_tokens=tokens, output_tokens=1)
        if "summary" in request.who:
            self._requests.note("summary")
            yield ModelResponse(text="What was said.", usage=Usage(output_tokens=1_000), cost=COST)
        elif request.messages[-1].role == "user":
            call = ModelCall(id="c", name="note", arguments="{}")
            yield ModelResponse(calls=(call,), usage=usage)
        else:
            yield ModelResponse(text="Done.", usage=usage)


def catalog(folder: Path) -> Catalog:
    effects = Witness(folder / "effects")

    @tw.tool(description="Note.")
    async def note(state: tw.ThreadState) -> str:
        effects.note(state.call_id or "")
        return "noted " * 300

    model = Narrow(Witness(folder / "requests"))
    prompt = tw.Prompt("talker", "Talk.", model=model, tools=[note])
    return Catalog(agents=[tw.Agent("talker", prompt)])


async def run(order: Order) -> None:
    async with at_work(order, catalog(Path(order["folder"]))) as runtime, asyncio.timeout(30):
        await lead(runtime)


async def lead(rt: Runtime) -> None:
    """Go on with the conversation until each of its messages is answered."""
    threads = await rt.threads.list()
    thread = threads[0] if threads else await rt.threads.create("talker")
    for each in await rt.runs.list():
        await rt.runs.wait(each.id)
    while len(await rt.runs.list()) < TURNS:
        run = await rt.threads.send(thread.id, LINE)
        await rt.runs.wait(run.id)
