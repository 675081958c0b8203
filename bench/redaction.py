"""The cost of secrets: a step of a run whose thread has some, and the search in one text (D6).

A step is compared with the same step without secrets. A search is compared with one `in` for each secret as it is,
although the search covers at least four spellings.
"""

import asyncio
import random
import statistics
import string
import time
from collections.abc import Callable

import toolwright as tw
from bench.loop import app_of
from bench.row import Row
from toolwright.core.env.redact import Redactor
from toolwright.testing import runtime
from toolwright.wiring.gateway import settle_memory

COUNTS = (1, 10, 50)
SIZES = {"0.1 KiB": 100, "1 KiB": 1024, "16 KiB": 16 * 1024, "256 KiB": 255 * 1024}  # just within the limit
LENGTH = 40  # characters of a secret
STEPS, RUNS = 20, 7

_dice = random.Random(7)


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return [*_looks(), *asyncio.run(_steps())]


def _secrets(count: int) -> dict[str, str]:
    letters = string.ascii_letters + string.digits
    return {f"KEY_{number}": "".join(_dice.choices(letters, k=LENGTH)) for number in range(count)}


def _prose(size: int) -> str:
    words = ["".join(_dice.choices(string.ascii_lowercase, k=_dice.randint(2, 10))) for _ in range(1_000)]
    return " ".join(_dice.choices(words, k=size // 3))[:size]


# ── one text ────────────────────────────────────────────────────────────────────────────────────────────────


def _looks() -> list[Row]:
    return [_look(count, name, _prose(size)) for count in COUNTS for name, size in SIZES.items()]


def _look(count: int, name: str, text: str) -> Row:
    redactor = Redactor(_secrets(count).items())
    values = [value for _, value in redactor.secrets]
    floor, value = _pair(lambda: [value in text for value in values], lambda: redactor.text(text))
    return Row(f"a look for {count} secrets in {name}", value, "µs", floor, None)


def _pair(floor: Callable[[], object], ours: Callable[[], object]) -> tuple[float, float]:
    """Return the median µs of both, measured alternately."""
    floors: list[float] = []
    values: list[float] = []
    for _ in range(60):
        floors.append(_time(floor))
        values.append(_time(ours))
    return statistics.median(floors), statistics.median(values)


def _time(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    for _ in range(10):
        work()
    return (time.perf_counter() - begin) / 10 * 1e6


# ── a step ──────────────────────────────────────────────────────────────────────────────────────────────────


async def _steps() -> list[Row]:
    rows: list[Row] = []
    for name, size in SIZES.items():
        taken = await _step(_prose(size))
        rows += [
            Row(f"in-memory step, result of {name}, {count} secrets", taken[count], "µs", taken[0], None)
            for count in COUNTS
        ]
    return rows


async def _step(text: str) -> dict[int, float]:
    """Return the median µs of a step by number of secrets, measured alternately."""

    @tw.tool(description="Tell something.")
    async def tell() -> str:
        return text

    taken: dict[int, list[float]] = {count: [] for count in (0, *COUNTS)}
    secrets = {count: _secrets(count) for count in taken}
    async with runtime(app_of(STEPS, tell, "{}")) as rt:
        for _ in range(RUNS):
            for count, times in taken.items():
                thread = await rt.threads.create("bench", env=secrets[count])
                begin = time.perf_counter()
                sent = await rt.threads.send(thread.id, "go")
                await rt.runs.wait(sent.id)
                times.append((time.perf_counter() - begin) / (STEPS + 1) * 1e6)
    return {count: statistics.median(times) for count, times in taken.items()}
