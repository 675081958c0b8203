"""Processes that continue a conversation too long for its model, and that kill themselves at a commit of a summary.

If the order says `ahead`, the limit is known, and summaries are written in the background of the conversation.
"""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import toolwright as tw
from tests.crash.dying import Witness, at_work, die
from tests.crash.forks import Order
from tests.runtime.narrow import prompt_of
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
TURNS_AHEAD, SHORT_LINE = 24, "word " * 150
RUNS_MEANWHILE = 2  # while a slow summary is written


class Narrow:
    """A model that refuses requests over its limit without giving a number.

    It calls a tool first, then says it is done.
    """

    name = "test:narrow"

    def __init__(self, folder: Path) -> None:
        self._requests, self._refused = Witness(folder / "requests"), Witness(folder / "refused")

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        tokens = text_tokens(prompt_of(request)) + sum(map(message_tokens, request.messages))
        if tokens > LIMIT:
            self._refused.note(str(tokens))
            raise ContextTooLong("Too long.")
        usage = Usage(input_tokens=tokens, output_tokens=1)
        if "summary" in request.who:
            self._requests.note("summary")
            yield summary()
        elif request.messages[-1].role == "user":
            call = ModelCall(id="c", name="note", arguments="{}")
            yield ModelResponse(calls=(call,), usage=usage)
        else:
            yield ModelResponse(text="Done.", usage=usage)


def summary() -> ModelResponse:
    return ModelResponse(text="What was said.", usage=Usage(output_tokens=1_000), cost=COST)


class Writer:
    """A model that writes the summaries ahead of time; if the order says so, the process dies at its first one.

    The process dies when the summary is `asked` for, when it is `written`, or some runs later, while it is still
    `held`.
    """

    name = "test:writer"

    def __init__(self, requests: Witness, death: str | None) -> None:
        self._requests, self._death = requests, death
        self._runs: int | None = None

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        assert "summary" in request.who
        self._requests.note("summary")
        match self._death:
            case "asked":
                die()
            case "written":
                [task] = [each for each in asyncio.all_tasks() if each.get_name().startswith("summary ")]
                task.add_done_callback(lambda _: die())
            case "held":
                self._runs = 0
                await asyncio.Event().wait()
            case _:
                pass
        yield summary()

    def end_of_run(self) -> None:
        """Die, if enough runs have completed while the summary is held."""
        if self._runs is None:
            return
        self._runs += 1
        if self._runs > RUNS_MEANWHILE:  # the first is the run that requested it
            die()


def catalog(folder: Path, writer: Writer | None = None) -> Catalog:
    effects = Witness(folder / "effects")

    @tw.tool(description="Note.")
    async def note(state: tw.ThreadState) -> str:
        effects.note(state.call_id or "")
        return "noted " * (300 if writer is None else 60)

    policy = None if writer is None else tw.Context(max_tokens=LIMIT, summarize_with=writer)
    prompt = tw.Prompt("talker", "Talk.", model=Narrow(folder), tools=[note], context=policy)
    return Catalog(agents=[tw.Agent("talker", prompt)])


async def run(order: Order) -> None:
    folder = Path(order["folder"])
    kill: dict[str, Any] = order.get("kill") or {}
    writer = Writer(Witness(folder / "requests"), kill.get("summary")) if order.get("ahead") else None
    async with at_work(order, catalog(folder, writer)) as runtime, asyncio.timeout(60):
        await lead(runtime, writer)


async def lead(rt: Runtime, writer: Writer | None) -> None:
    """Continue the conversation until each of its messages is answered."""
    threads = await rt.threads.list()
    thread = threads[0] if threads else await rt.threads.create("talker")
    for each in await rt.runs.list():
        await rt.runs.wait(each.id)
    turns, line = (TURNS, LINE) if writer is None else (TURNS_AHEAD, SHORT_LINE)
    while len(await rt.runs.list()) < turns:
        run = await rt.threads.send(thread.id, line)
        await rt.runs.wait(run.id)
        if writer is not None:
            writer.end_of_run()
