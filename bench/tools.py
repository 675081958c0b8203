"""A thousand tools in a request: their cost in the loop and in the providers' clients.

The clients are the real ones, over loopback to a server in another process that speaks their wire format. A figure is
the CPU time of the calling thread alone. The tools have 1.3 MB as JSON. The floor is `json.dumps` of the same tools.
"""

import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from tests.models.wire_server import WireServer

import toolwright as tw
from bench.row import Row
from toolwright.adapters.models.providers.model import PydanticAIModel
from toolwright.core.json_value import JSONObject
from toolwright.core.model import ModelRequest, ToolDefinition
from toolwright.core.threads.message import Message

COUNT, MANY = 1_000, 5_000
TARGET = 1.0  # ms
STEPS = 7
FIELDS = 5  # per tool: with its parameters 1.3 KB as JSON
WIRES = {"openai:gpt-4o": 20.0, "openai-chat:gpt-4o": 20.0, "anthropic:claude-sonnet-5-5": 45.0}
"""Models, and the target of a step in ms of CPU of the calling thread."""
HELD = 25.0  # ms for which the event loop can be blocked without a pause
FIRST = 1_000.0  # ms for the first request of 5,000 tools
ASKED = (Message(id="m", role="user", content="Hello", created_at=datetime(2026, 1, 1, tzinfo=UTC)),)


def _schema(fields: int) -> JSONObject:
    described = "Some text, in the language of the user, without line breaks."
    return {
        "type": "object",
        "properties": {
            f"field_{n}": {
                "type": "object",
                "description": described,
                "properties": {
                    "values": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                },
            }
            for n in range(fields)
        },
        "required": ["field_0"],
    }


def _tools() -> tw.Toolset:
    return tw.Toolset(
        [
            tw.Tool(
                name=f"tool_{n}", description=f"Tool number {n}.", kind="external", parameters=_schema(FIELDS)
            )
            for n in range(COUNT)
        ]
    )


def _definitions(count: int) -> tuple[ToolDefinition, ...]:
    return tuple(
        [
            ToolDefinition(name=f"tool_{n}", description=f"Tool number {n}.", parameters=_schema(FIELDS))
            for n in range(count)
        ]
    )


def _request_of(tools: tw.Toolset) -> int:
    return len(ModelRequest(messages=(), tools=tools.model_definitions).tools)


@contextmanager
def _provider() -> Generator[None]:
    """Start a provider in a separate process, and set the environment variables that point to it."""
    command = [sys.executable, "-m", "bench.tools"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        os.environ |= {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "k",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "k",
        }
        yield
        process.stdin.close()


async def _serve() -> None:
    """Serve until standard input ends."""
    async with WireServer(checks=False) as server:
        for _ in range(1_000):
            server.answer(text=["Hi."])
        print(server.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def _longest_pause(stop: asyncio.Event) -> float:
    """Return the longest pause of the event loop, in ms, as seen by a task that is always ready."""
    longest, last = 0.0, time.perf_counter()
    while not stop.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1e3


async def _asked(model: PydanticAIModel, tools: tuple[ToolDefinition, ...]) -> float:
    """Return the CPU ms of this thread for one answer."""
    begin = time.thread_time()
    async for _ in model.respond(ModelRequest(messages=ASKED, tools=tools)):
        pass
    return (time.thread_time() - begin) * 1e3


async def _held(model: PydanticAIModel, tools: tuple[ToolDefinition, ...]) -> float:
    stop = asyncio.Event()
    watching = asyncio.create_task(_longest_pause(stop))
    await _asked(model, tools)
    stop.set()
    return await watching


async def _steps(name: str, target: float, tools: tuple[ToolDefinition, ...]) -> list[Row]:
    model = PydanticAIModel(name)
    await _asked(model, tools)
    taken = statistics.median([await _asked(model, tools) for _ in range(STEPS)])
    # the minimum, since other processes of the machine add to it
    held = min([await _held(model, tools) for _ in range(STEPS)])
    first = PydanticAIModel(name)
    begin = time.perf_counter()
    await _asked(first, _definitions(MANY))
    many = (time.perf_counter() - begin) * 1e3
    await model.aclose()
    await first.aclose()
    floor, note = _dumped(tools), "CPU of the calling thread; floor: json.dumps of the tools"
    return [
        Row(f"{COUNT:,} tools, a step, {name}", taken, "ms", floor, target, note=note),
        Row(f"{COUNT:,} tools, the loop held at once, {name}", held, "ms", floor, HELD),
        Row(f"{MANY:,} tools, the first request, {name}", many, "ms", floor * MANY / COUNT, FIRST),
    ]


def _dumped(tools: tuple[ToolDefinition, ...]) -> float:
    parameters = [tool.parameters for tool in tools]
    begin = time.perf_counter()
    json.dumps(parameters)
    return (time.perf_counter() - begin) * 1e3


async def _measure() -> list[Row]:
    tools = _tools()
    _request_of(tools)
    taken: list[float] = []
    for _ in range(200):
        begin = time.perf_counter()
        _request_of(tools)
        taken.append((time.perf_counter() - begin) * 1e3)
    floor = _dumped(tools.model_definitions)
    note = "floor: writing them as JSON once, which a provider's client does at every request"
    rows = [
        Row(
            f"{COUNT:,} tools in a request, after the first",
            statistics.median(taken),
            "ms",
            floor,
            TARGET,
            note=note,
        )
    ]
    # it warns of more tools than OpenAI documents
    logging.getLogger("toolwright.models").setLevel(logging.ERROR)
    with _provider():
        for name, target in WIRES.items():
            rows += await _steps(name, target, _definitions(COUNT))
    return rows


def run() -> list[Row]:
    """Measure the rows of this benchmark."""
    return asyncio.run(_measure())


if __name__ == "__main__":
    asyncio.run(_serve())
