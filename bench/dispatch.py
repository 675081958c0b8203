"""The cost of a tool call: validate JSON, run an async tool with its timeout, render the result (DESIGN §6)."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NotRequired, TypeAlias

from pydantic import TypeAdapter
from pydantic_core import to_json
from typing_extensions import TypedDict

from bench.row import Row
from bench.shop import NESTED, TOOLS, Filter, find_products, search
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.wire.result import model_text

ROUNDS, BATCH = 400, 100
SIMPLE = '{"query": "how to reset a password", "limit": 10}'
TARGETS = {"nested": 3.0, "simple": 2.5}  # floors

Call: TypeAlias = Callable[[], Awaitable[object]]


class Simple(TypedDict):
    """The arguments of `search`."""

    query: str
    limit: NotRequired[int]


class Nested(Simple):
    """The arguments of `find_products`."""

    filter: Filter
    sort: NotRequired[Literal["price", "name"]]


def _floor(tool: Tool, text: str, arguments: type[Simple]) -> Call:
    """Time pydantic-core alone: validate the same arguments from text, render the same result as JSON."""
    validator = TypeAdapter[Simple](arguments).validator
    handler: Any = tool.handler  # an async function

    async def call() -> object:
        return to_json(await handler(**validator.validate_json(text, strict=True, extra="forbid")))

    return call


def _ours(tool: Tool, text: str) -> Call:
    tools = Toolset(TOOLS)

    async def call() -> object:
        return model_text(await tools.call(tool.name, text))

    return call


async def _batch(call: Call) -> float:
    """Return the mean microseconds of a call over one small batch."""
    begin = time.perf_counter_ns()
    for _ in range(BATCH):
        await call()
    return (time.perf_counter_ns() - begin) / BATCH / 1000


async def _measure(floor: Call, ours: Call) -> tuple[float, float]:
    floors: list[float] = []
    values: list[float] = []
    for _ in range(ROUNDS):
        floors.append(await _batch(floor))
        values.append(await _batch(ours))
    return statistics.median(floors), statistics.median(values)


def run() -> list[Row]:
    """Measure the median µs of a call, alternating with its floor."""
    floors = {
        "nested": (_floor(find_products, NESTED, Nested), _ours(find_products, NESTED)),
        "simple": (_floor(search, SIMPLE, Simple), _ours(search, SIMPLE)),
    }
    rows: list[Row] = []
    for name, (floor, ours) in floors.items():
        least, value = asyncio.run(_measure(floor, ours))
        note = "the default timeout, the result as text for the model"
        rows.append(
            Row(f"dispatch, {name} arguments (p50)", value, "µs", least, TARGETS[name] * least, note=note)
        )
    return rows
