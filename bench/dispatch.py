"""What it costs to judge JSON arguments and run an async tool (DESIGN §6)."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from pydantic_core import SchemaValidator, core_schema

from bench.row import Row
from toolwright.core.tools.tool import tool
from toolwright.core.tools.toolset import Toolset

ROUNDS, BATCH = 400, 100
TEXT = '{"query": "how to reset a password", "limit": 10}'
TARGET = 5.0


async def search(query: str, limit: int = 10) -> str:
    """Search the knowledge base."""
    return query


def _floor() -> Callable[[], Awaitable[object]]:
    field = core_schema.typed_dict_field
    validator = SchemaValidator(
        core_schema.typed_dict_schema(
            {
                "query": field(core_schema.str_schema()),
                "limit": field(core_schema.int_schema(), required=False),
            }
        )
    )

    async def call() -> object:
        return await search(**validator.validate_json(TEXT))

    return call


def _ours() -> Callable[[], Awaitable[object]]:
    tools = Toolset([tool(timeout=None)(search)])
    return lambda: tools.call("search", TEXT)


async def _batch(call: Callable[[], Awaitable[object]]) -> float:
    """Microseconds a call, the mean over one small batch."""
    begin = time.perf_counter_ns()
    for _ in range(BATCH):
        await call()
    return (time.perf_counter_ns() - begin) / BATCH / 1000


async def _measure() -> tuple[float, float]:
    floor, ours = _floor(), _ours()
    floors: list[float] = []
    values: list[float] = []
    for _ in range(ROUNDS):
        floors.append(await _batch(floor))
        values.append(await _batch(ours))
    return statistics.median(floors), statistics.median(values)


def run() -> list[Row]:
    """The median of a call in µs, its floor (raw pydantic-core and the function) in the same run."""
    floor, value = asyncio.run(_measure())
    return [Row("dispatch of an async tool, JSON text, no timeout (p50)", value, "µs", floor, TARGET)]
