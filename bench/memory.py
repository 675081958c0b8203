"""Search of an agent's 100,000 passages on SQLite.

Measured with no other passages in the journal, with as many of another agent, and by meaning (`semantics`). The
passages consist of the words of our own documents, with the same frequencies. The floor is a direct query of the index:
a bare FTS query for the places of the newest matches, on an open connection.
"""

import asyncio
import contextlib
import re
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import toolwright as tw
from bench.row import Row
from bench.semantics import by_meaning
from toolwright.adapters.store.schema import upgrade_sqlite
from toolwright.adapters.store.sql.memory import PASSAGES, PASSAGES_EACH, coded
from toolwright.adapters.store.sql.memory import passages as table
from toolwright.adapters.system import SystemClock
from toolwright.core.agents.memory import CANDIDATES, Passage, folded, folded_passage
from toolwright.runtime.agents.memory import Passages
from toolwright.testing import ScriptedModel
from toolwright.wiring.gateway import settle_memory

PASSAGE_COUNT, WORDS_EACH, TIMES = 100_000, 25, 60
TARGET = 5.0  # milliseconds (issue 14, "Speed")
DOCUMENTS = Path(__file__).parents[1] / "docs"
MODEL = ScriptedModel([{"text": "x"}])
BENCH, OTHER = (tw.Agent(name, tw.Prompt(name, "x", model=MODEL)) for name in ("bench", "other"))
BARE = f"SELECT rowid FROM passage_index WHERE passage_index MATCH ? ORDER BY rowid DESC LIMIT {CANDIDATES}"


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return [*asyncio.run(_all()), *asyncio.run(by_meaning())]


async def _all() -> list[Row]:
    chance = Random(14)
    text = " ".join(path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS.rglob("*.md")))
    words = re.findall(r"[A-Za-z]{3,}", text)
    by_count = [word for word, _ in Counter(words).most_common()]
    queries = {
        "a rare word": by_count[-20:],
        "a common word": by_count[:20],
        "two words": [
            f"{one} {other}" for one, other in zip(by_count[20:40], by_count[300:320], strict=True)
        ],
        "a word that is nowhere": ["interlating", "straments", "consideral", "processible"],
        "a word of two letters": [word[:2] for word in by_count[:20]],
    }
    agents = (BENCH, OTHER)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        upgrade_sqlite(path)
        for keeper, where in enumerate(("alone", "beside as many of another's"), 1):
            _fill(path, keeper, agents[keeper - 1].id, _texts(chance, words))
            async with tw.App(agents=agents).runtime(tw.Settings(database_url=f"sqlite:///{path}")) as rt:
                for what, texts in queries.items():
                    rows.append(await _row(rt.passages, path, f"{what}, {where}", texts))
    return rows


async def _row(passages: Passages, path: Path, what: str, queries: list[str]) -> Row:
    took: list[float] = []
    for n in range(TIMES):
        start = time.perf_counter()
        await passages.search("bench", queries[n % len(queries)])
        took.append((time.perf_counter() - start) * 1_000)
    indexed = min(len(query) for query in queries) > 2
    return Row(
        f"SQLite, search of {PASSAGE_COUNT:,} passages: {what}, p50",
        statistics.median(took),
        "ms",
        _floor(path, queries) if indexed else None,
        TARGET if indexed else None,
        note=f"p95 {sorted(took)[int(TIMES * 0.95)]:.2f} ms",
    )


def _floor(path: Path, queries: list[str]) -> float:
    took: list[float] = []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for n in range(TIMES):
            words = folded(queries[n % len(queries)]).split()
            match = " ".join(f'"{coded(word, BENCH.id)}"' for word in words)
            start = time.perf_counter()
            connection.execute(BARE, (match,)).fetchall()
            took.append((time.perf_counter() - start) * 1_000)
    return statistics.median(took)


def _texts(chance: Random, words: list[str]) -> Iterator[str]:
    for _ in range(PASSAGE_COUNT):
        yield " ".join(chance.choices(words, k=WORDS_EACH))


def _fill(path: Path, keeper: int, agent_id: str, texts: Iterator[str]) -> None:
    """Write the passages of an agent as its units would, in one transaction."""
    at = SystemClock().now()
    columns = [column.name for column in table.columns]
    insert = f"INSERT INTO passages ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)})"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO passage_keepers (number, agent_id, stored) VALUES (?, ?, ?)",
            (keeper, agent_id, PASSAGE_COUNT),
        )
        for n, text in enumerate(texts, 1):
            passage = Passage(agent_id=agent_id, id=f"psg_{n}", content=text, created_at=at)
            place = keeper * PASSAGES_EACH + n
            unembedded = {"embedder": None, "floats": None}
            params = PASSAGES.params(passage, place=place, folded=folded_passage(passage), **unembedded)
            connection.execute(insert, [params[name] for name in columns])
            index = (place, coded(folded_passage(passage), agent_id))
            connection.execute("INSERT INTO passage_index (rowid, coded) VALUES (?, ?)", index)
