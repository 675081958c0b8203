"""A run as a program embeds it: `tw.run` with the default settings, in memory and on an SQLite file.

Each run has two steps: one call with nested arguments, then the answer. The figures are CPU of the whole process, and
are taken in blocks that alternate, so that other work of the machine affects all of them. The floor of a run in memory
is the same model, validation and function without a journal; of one on a file, that and as many commits of a row of the
same size as the run makes.
"""

import asyncio
import contextlib
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import toolwright as tw
from bench.loop import OneCallAStep
from bench.row import Row
from bench.shop import NESTED, SYSTEM, TOOLS, find_products
from toolwright.adapters.store.sqlite.file import connect
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.wiring.gateway import settle_memory

BLOCKS, EACH = 12, 20
COMMITS = 6  # of a run with one call: thread, message, claim, answer with the call, result, last answer
LONG = json.dumps([{"id": n, "name": f"Hiking boots {n}", "note": "waterproof, leather"} for n in range(280)])
"""A result of 20 KB."""

Work = Callable[[], Awaitable[object]]


@tw.tool
async def export() -> str:
    """Export all products."""
    return LONG


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return asyncio.run(_all())


def _calling(name: str, arguments: str) -> OneCallAStep:
    return OneCallAStep(1, ModelCall(id="c", name=name, arguments=arguments))


def _agent(tool: tw.Tool, arguments: str, *toolkits: str) -> tw.Agent:
    tools = [tool, *(each for each in TOOLS if each is not tool)]
    model = _calling(tool.name, arguments)
    return tw.Agent("bench", instructions=SYSTEM, model=model, tools=tools, toolkits=toolkits)


async def _bare(tools: tw.Toolset, tool: tw.Tool, arguments: str) -> None:
    """Do the work of a run without a journal."""
    model = _calling(tool.name, arguments)
    for step in (1, 2):
        async for event in model.respond(ModelRequest(messages=(), step=step)):
            if isinstance(event, ModelResponse) and event.calls:
                await tools.call(event.calls[0].name, event.calls[0].arguments)


async def _committed(connection: sqlite3.Connection, work: Work) -> None:
    await work()
    for _ in range(COMMITS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (content) VALUES (?)", (NESTED,))
        connection.execute("COMMIT")


async def _all() -> list[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(connect(Path(folder) / "floor.db")) as floor,
    ):
        floor.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, content TEXT)")
        tools = tw.Toolset([export, *TOOLS])
        nested = partial(_bare, tools, find_products, NESTED)
        long = partial(_bare, tools, export, "{}")
        file = f"sqlite:///{folder}/runs.db"
        remembering = _agent(find_products, NESTED, "memory")
        block = json.dumps({"label": "customer", "content": "Prefers leather boots. " * 20})
        await tw.run(remembering, "Go.", model=_calling("update_memory", block))
        works: dict[str, tuple[Work, Work]] = {
            "in memory": (partial(tw.run, _agent(find_products, NESTED), "Go."), nested),
            "in memory, an agent with a block of memory": (partial(tw.run, remembering, "Go."), nested),
            "in memory, a result of 20 KB": (partial(tw.run, _agent(export, "{}"), "Go."), long),
            "on SQLite": (
                partial(tw.run, _agent(find_products, NESTED), "Go.", database_url=file),
                partial(_committed, floor, nested),
            ),
        }
        taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in works}
        for _ in range(BLOCKS):
            for name, (work, least) in works.items():
                for times, each in zip(taken[name], (work, least), strict=True):
                    await each()
                    begin = time.process_time()
                    for _ in range(EACH):
                        await each()
                    times.append((time.process_time() - begin) / EACH * 1e6)
    return [
        Row(
            f"tw.run {name}: CPU",
            min(times),
            "µs",
            min(least),
            None,
            note=f"median {statistics.median(times):,.0f} (floor {statistics.median(least):,.0f})",
        )
        for name, (times, least) in taken.items()
    ]
