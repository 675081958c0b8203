"""A thousand tools in a request: what they add to a step, after the first."""

import asyncio
import json
import statistics
import time

import toolwright as tw
from bench.row import Row
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelRequest

COUNT = 1_000
TARGET = 1.0  # ms


def _tools() -> tw.Toolset:
    schema: JSONObject = {
        "type": "object",
        "properties": {f"field_{n}": {"type": "string", "description": "Some text."} for n in range(6)},
    }
    return tw.Toolset(
        [
            tw.Tool(name=f"tool_{n}", description=f"Tool number {n}.", kind="external", parameters=schema)
            for n in range(COUNT)
        ]
    )


def _request_of(tools: tw.Toolset) -> int:
    return len(ModelRequest(messages=(), tools=tools.model_definitions).tools)


async def _measure() -> list[Row]:
    tools = _tools()
    _request_of(tools)
    taken: list[float] = []
    for _ in range(200):
        begin = time.perf_counter()
        _request_of(tools)
        taken.append((time.perf_counter() - begin) * 1e3)
    begin = time.perf_counter()
    json.dumps(tools.definitions("openai"))
    floor = (time.perf_counter() - begin) * 1e3
    note = "floor: writing them as JSON once, which a provider's client does at every request"
    return [
        Row(
            "1,000 tools in a request, after the first",
            statistics.median(taken),
            "ms",
            floor,
            TARGET,
            note=note,
        )
    ]


def run() -> list[Row]:
    """The figures."""
    return asyncio.run(_measure())
