"""Two trees of this repository beside each other: the CPU of a step and of a run, in memory and on SQLite.

`python -m bench.versus BEFORE [AFTER] [--blocks N]` runs this file with the sources of both folders in turns, each time in
a process of its own, and prints minima, medians and ratios. `AFTER` is this tree if it is left out. The program uses only
the public API, so old trees can be measured. The floor of a durable step is two raw commits (see `raw_commits`).
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
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypedDict

STEPS = 20
RUNS = {"memory": 60, "sqlite": 20}
ARGUMENTS = json.dumps({
    "filters": {"price": {"min": 10, "max": 90}, "tags": ["hiking", "boots"]},
    "sort": "price",
    "limit": 20,
})  # fmt: skip
ANSWER = {"products": [{"id": n, "name": f"Hiking boots {n}", "price": 10.5 * n} for n in range(5)]}


class Price(TypedDict):
    """The prices that a search allows."""

    min: float
    max: float


class Filters(TypedDict):
    """What a search looks for."""

    price: Price
    tags: list[str]


def raw_commits(folder: Path, count: int = 400) -> float:
    """Return the µs of CPU of two commits of one row of 400 bytes with `sqlite3` alone."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE floor (id INTEGER PRIMARY KEY, body TEXT)")
    began = time.process_time()
    for _ in range(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO floor (body) VALUES (?)", ("x" * 400,))
        connection.execute("COMMIT")
    used = time.process_time() - began
    connection.close()
    return used / count * 2 * 1e6


async def figures() -> dict[str, float]:
    """Return the figures of the tree that is imported, in µs of CPU."""
    import toolwright as tw  # noqa: PLC0415  # the tree to measure is known only when this file is the program
    from toolwright.core.model import ModelCall, ModelRequest, ModelResponse  # noqa: PLC0415
    from toolwright.testing import runtime  # noqa: PLC0415

    class OneCallAStep:
        name = "bench"

        def __init__(self, steps: int) -> None:
            self.steps = steps

        async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelResponse]:
            call = ModelCall(id="c", name="search", arguments=ARGUMENTS)
            yield ModelResponse(calls=(call,)) if request.step <= self.steps else ModelResponse(text="done")

    @tw.tool(description="Search the products.")
    async def search(filters: Filters, sort: str, limit: int = 10) -> dict[str, object]:
        return ANSWER

    def agent(steps: int) -> tw.Agent:
        prompt = tw.Prompt("p", "You sell boots.", model=OneCallAStep(steps), tools=[search])
        return tw.Agent(f"bench-{steps}", tw.Side(prompt, max_steps=steps + 5))

    agents = {steps: agent(steps) for steps in (1, STEPS)}

    async def runs_of(rt: object, steps: int, count: int) -> float:
        """Return the least µs of CPU of a run and its thread, over blocks of five."""
        used: list[float] = []
        for _ in range(count // 5):
            began = time.process_time()
            for _ in range(5):
                thread = await rt.threads.create(f"bench-{steps}")  # type: ignore[attr-defined]
                run = await rt.threads.send(thread.id, "go")  # type: ignore[attr-defined]
                await rt.runs.wait(run.id)  # type: ignore[attr-defined]
            used.append((time.process_time() - began) / 5 * 1e6)
        return min(used)

    found: dict[str, float] = {}
    app = tw.App(agents=list(agents.values()))
    async with runtime(app) as rt:
        await runs_of(rt, 1, 20)
        found["memory: run of 1 call"] = await runs_of(rt, 1, RUNS["memory"] * 5)
        found["memory: step of 20"] = await runs_of(rt, STEPS, RUNS["memory"]) / (STEPS + 1)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        floor = raw_commits(Path(folder))
        settings = tw.Settings(database_url=f"sqlite:///{folder}/journal.db")
        async with app.runtime(settings) as rt:
            await runs_of(rt, 1, 20)
            found["SQLite: run of 1 call"] = await runs_of(rt, 1, RUNS["sqlite"] * 3)
            found["SQLite: step of 20"] = await runs_of(rt, STEPS, RUNS["sqlite"]) / (STEPS + 1)
    found["floor: two raw commits"] = floor
    return found


def _block(tree: Path) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "TOOLWRIGHT_LOG_LEVEL": "warning"}
    done = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def compare(before: Path, after: Path, blocks: int) -> None:
    """Print the figures of both trees."""
    taken: dict[str, tuple[list[float], list[float]]] = {}
    for _ in range(blocks):
        for place, tree in enumerate((before, after)):
            for name, value in _block(tree).items():
                taken.setdefault(name, ([], []))[place].append(value)
    print(f"{'µs of CPU: minimum (median)':<28} {'before':>16} {'after':>16} {'ratio':>14}")
    show: Callable[[list[float]], str] = lambda each: f"{min(each):.0f} ({statistics.median(each):.0f})"
    for name, (old, new) in taken.items():
        ratio = f"{min(new) / min(old):.2f} ({statistics.median(new) / statistics.median(old):.2f})"
        print(f"{name:<28} {show(old):>16} {show(new):>16} {ratio:>14}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps(asyncio.run(figures())))
    else:
        *trees, blocks = [*sys.argv[1:], "5"] if not sys.argv[-1].isdigit() else sys.argv[1:]
        before, after = (Path(trees[0]), Path(trees[1]) if len(trees) > 1 else Path(__file__).parent.parent)
        compare(before, after, int(blocks))
