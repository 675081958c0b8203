"""Calls of a toolkit's handlers on SQLite: one after another in one run, many at once, and of many toolkits.

The floor of each is one empty commit of the same journal; a call takes four.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import toolwright as tw
from bench.row import Row
from bench.submission import commit_floor
from toolwright.runtime.toolkits.toolkit import Toolkit
from toolwright.testing import ScriptedModel
from toolwright.wiring.gateway import settle_memory

FIRST, LATER, AT_ONCE, TOOLKITS = 50, 450, 1_000, 500
PASSAGE = {"content": "Tea is served at four, in the room behind the kitchen.", "tags": ["tea", "house"]}


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return asyncio.run(_all())


async def _all() -> list[Row]:
    prompt = tw.Prompt("bench", "x", model=ScriptedModel([{"text": "x"}]))
    app = tw.App(agents=[tw.Agent("bench", prompt, toolkits=["channels", "memory"])])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        async with app.runtime(tw.Settings(database_url=f"sqlite:///{path}")) as rt:
            toolkit = rt.toolkit("bench")
            first = await _one_after_another(toolkit, FIRST)
            await _at_once([toolkit], LATER)
            later = await _one_after_another(toolkit, FIRST)
            together = await _at_once([rt.toolkit("bench")], AT_ONCE)
            apart = await _at_once([rt.toolkit("bench") for _ in range(TOOLKITS)], TOOLKITS)
        floor = await commit_floor(path)
    what = "SQLite, a call of a toolkit's handler"
    return [
        Row(f"{what}, p50 of the first {FIRST} of a run", first, "ms", floor, None),
        Row(f"{what}, p50 of {FIRST} behind {FIRST + LATER} others", later, "ms", floor, None),
        Row(f"{what}, each of {AT_ONCE:,} at once in one run", together, "ms", floor, None),
        Row(f"{what}, each of {TOOLKITS} toolkits' first calls at once", apart, "ms", floor, None),
    ]


async def _one_after_another(toolkit: Toolkit, count: int) -> float:
    """Return the median time of a call, in milliseconds."""
    took: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        await toolkit.handlers["store_memory"](PASSAGE)
        took.append(time.perf_counter() - start)
    return statistics.median(took) * 1_000


async def _at_once(toolkits: list[Toolkit], count: int) -> float:
    """Return the milliseconds of all calls, divided by their number."""
    calls = [toolkits[n % len(toolkits)].handlers["store_memory"](PASSAGE) for n in range(count)]
    start = time.perf_counter()
    await asyncio.gather(*calls)
    return (time.perf_counter() - start) * 1_000 / count
