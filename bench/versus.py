"""Two trees of this repository beside each other: the CPU of a step and of a run, in memory and on SQLite.

`python bench/versus.py BEFORE [AFTER] [BLOCKS]` runs this file with the sources of both folders in turns, each time in
a process of its own, and prints minima, medians and ratios. `AFTER` is this tree if it is left out. Old trees can be
measured too, because the program uses only the public API. The floor of a durable step is two raw commits.
"""

import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TypedDict

import toolwright as tw
from toolwright.core.model import ModelCall, ModelRequest, ModelResponse
from toolwright.runtime.runtime import Runtime
from toolwright.testing import runtime

STEPS = 20
COMMITS = 400
ARGUMENTS = json.dumps({
    "filters": {"price": {"min": 10, "max": 90}, "tags": ["hiking", "boots"]},
    "sort": "price",
    "limit": 20,
})  # fmt: skip
PRODUCTS = json.dumps([{"id": n, "name": f"Hiking boots {n}", "price": 10.5 * n} for n in range(5)])


class Price(TypedDict):
    """The prices that a search allows."""

    min: float
    max: float


class Filters(TypedDict):
    """What a search looks for."""

    price: Price
    tags: list[str]


@tw.tool(description="Search the products.")
async def search(filters: Filters, sort: str, limit: int = 10) -> str:
    return PRODUCTS


class OneCallAStep:
    """A model that calls the tool in each of `steps` steps, and then answers."""

    name = "bench"

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
        call = ModelCall(id="c", name="search", arguments=ARGUMENTS)
        yield ModelResponse(calls=(call,)) if request.step <= self._steps else ModelResponse(text="done")


def agent(steps: int) -> tw.Agent:
    """Return an agent whose runs have that many calls."""
    prompt = tw.Prompt("p", "You sell boots.", model=OneCallAStep(steps), tools=[search])
    return tw.Agent(f"bench-{steps}", tw.Side(prompt, max_steps=steps + 5))


def raw_commits(folder: Path) -> float:
    """Return the µs of CPU of two commits of one row of 400 bytes with `sqlite3` alone."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE floor (id INTEGER PRIMARY KEY, body TEXT)")
    began = time.process_time()
    for _ in range(COMMITS):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO floor (body) VALUES (?)", ("x" * 400,))
        connection.execute("COMMIT")
    used = time.process_time() - began
    connection.close()
    return used / COMMITS * 2 * 1e6


async def run_cost(rt: Runtime, steps: int, blocks: int) -> float:
    """Return the least µs of CPU of a run with its thread, over blocks of five runs."""
    used: list[float] = []
    for _ in range(blocks):
        began = time.process_time()
        for _ in range(5):
            thread = await rt.threads.create(f"bench-{steps}")
            run = await rt.threads.send(thread.id, "go")
            await rt.runs.wait(run.id)
        used.append((time.process_time() - began) / 5 * 1e6)
    return min(used)


async def mean_cost(rt: Runtime, steps: int, runs: int) -> float:
    """Return the mean µs of CPU of a run with its thread, with the garbage collections that runs cause."""
    began = time.process_time()
    for _ in range(runs // 5):
        await run_cost(rt, steps, 1)
    return (time.process_time() - began) / runs * 1e6


async def figures() -> dict[str, float]:
    """Return the figures of the tree that is imported, in µs of CPU."""
    costs: dict[str, float] = {}
    app = tw.App(agents=[agent(1), agent(STEPS)])
    async with runtime(app) as rt:
        await run_cost(rt, 1, 4)
        costs["memory: run of 1 call"] = await run_cost(rt, 1, 60)
        costs["memory: step of 20"] = await run_cost(rt, STEPS, 12) / (STEPS + 1)
        costs["memory: step, mean of 10,000"] = await mean_cost(rt, STEPS, 480) / (STEPS + 1)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        costs["floor: two raw commits"] = raw_commits(Path(folder))
        async with app.runtime(tw.Settings(database_url=f"sqlite:///{folder}/journal.db")) as rt:
            await run_cost(rt, 1, 4)
            costs["SQLite: run of 1 call"] = await run_cost(rt, 1, 12)
            costs["SQLite: step of 20"] = await run_cost(rt, STEPS, 4) / (STEPS + 1)
    return costs


def measured(tree: Path) -> dict[str, float]:
    """Return the figures of a tree, measured in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    command = [sys.executable, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def shown(values: list[float]) -> str:
    """Return the minimum and the median."""
    return f"{min(values):.0f} ({statistics.median(values):.0f})"


def compare(before: Path, after: Path, blocks: int) -> None:
    """Print the figures of both trees."""
    costs: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(blocks):
        for place, tree in enumerate((before, after)):
            for name, value in measured(tree).items():
                costs.setdefault(name, ([], []))[place].append(value)
    print(f"{'µs of CPU: minimum (median)':<28} {'before':>16} {'after':>16} {'ratio':>14}")
    for name, (old, new) in costs.items():
        ratio = f"{min(new) / min(old):.2f} ({statistics.median(new) / statistics.median(old):.2f})"
        print(f"{name:<28} {shown(old):>16} {shown(new):>16} {ratio:>14}")


if __name__ == "__main__":
    words = sys.argv[1:]
    blocks = int(words.pop()) if words and words[-1].isdigit() else 5
    trees = [Path(each).resolve() for each in words] + [Path(__file__).resolve().parent.parent]
    if words:
        compare(trees[0], trees[1], blocks)
    else:
        print(json.dumps(asyncio.run(figures())))
