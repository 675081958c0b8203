"""Search of an agent's passages by meaning on SQLite: 10,000 and 20,000 vectors of 1,536 numbers.

The embedder answers immediately. The floor is reading the same vectors on an open connection and computing `math.dist`
of each to the query's vector, without a ranking.
"""

import contextlib
import math
import sqlite3
import statistics
import tempfile
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random

import toolwright as tw
from bench.row import Row
from toolwright.adapters.store.opening import open_sqlite
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.memory import Passage
from toolwright.core.journal.agent_effects import AddPassage
from toolwright.core.journal.units import Apply
from toolwright.runtime.agents.semantics import SCANNED, vector_of
from toolwright.testing import ScriptedModel

NAME, SIZE, TIMES, BATCH = "bench", 1_536, 7, 500
AGENT = tw.Agent("bench", tw.Prompt("bench", "x", model=ScriptedModel([{"text": "x"}])))
BARE = "SELECT floats FROM passages ORDER BY place DESC"


class Instant:
    """An embedder that answers immediately, with vectors of similar directions."""

    name = NAME

    def __init__(self) -> None:
        self._chance = Random(14)

    def numbers(self) -> list[float]:
        """Return a vector."""
        first, *others = (self._chance.random() for _ in range(SIZE))
        return [first + SIZE / 100, *others]

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return [self.numbers() for _ in texts]


async def by_meaning() -> list[Row]:
    """Measure the rows of this benchmark."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        for count in (SCANNED // 2, SCANNED):
            await _fill(path, count - SCANNED // 2, count)
            app = tw.App(agents=[AGENT], embedder=Instant())
            async with app.runtime(tw.Settings(database_url=f"sqlite:///{path}")) as rt:
                took: list[float] = []
                for _ in range(TIMES):
                    start = time.perf_counter()
                    found = await rt.passages.search("bench", "nowhere")
                    took.append((time.perf_counter() - start) * 1_000)
                    assert found
            name = f"SQLite, search by meaning of {count:,} passages, p50"
            rows.append(
                Row(name, statistics.median(took), "ms", _floor(path), None, note=f"{SIZE:,} numbers")
            )
    return rows


def _floor(path: Path) -> float:
    took: list[float] = []
    query = Instant().numbers()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for _ in range(TIMES):
            start = time.perf_counter()
            for (floats,) in connection.execute(BARE):
                math.dist(array("f", floats).tolist(), query)
            took.append((time.perf_counter() - start) * 1_000)
    return statistics.median(took)


async def _fill(path: Path, start: int, end: int) -> None:
    """Store passages, each with a vector."""
    store, embedder, at = await open_sqlite(path, lambda _: None), Instant(), SystemClock().now()
    for first in range(start, end, BATCH):
        effects: list[AddPassage] = []
        for n in range(first, first + BATCH):
            passage = Passage(agent_id=AGENT.id, id=f"psg_{n}", content=f"passage {n}", created_at=at)
            vector = vector_of(NAME, embedder.numbers())
            effects.append(AddPassage(passage=passage, vector=vector))
        await store.commit(Apply(token=f"unit_{first}", at=at, effects=tuple(effects)))
    await store.close()
