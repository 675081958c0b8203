"""A whole run in memory: fake model, no tracer; the cost of a step, and whether it stays constant."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator

import toolwright as tw
from bench.row import Row
from bench.shop import NESTED, SYSTEM, TOOLS, find_products
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.testing import runtime
from toolwright.wiring.gateway import settle_memory

TARGET_STEP = 100.0  # µs
LOOK = 0.05  # seconds
BEST_KNOWN_IDEAL = 26  # %


@tw.tool(description="Wait 20 ms.")
async def wait() -> str:
    await asyncio.sleep(0.02)
    return "waited"


@tw.tool(description="Wait 50 ms.", read_only=True)
async def look() -> str:
    await asyncio.sleep(LOOK)
    return "looked"


class Observer(tw.Hooks):
    """A hook that is asked at the four points of a step, and changes nothing."""

    def before_model(self, event: tw.BeforeModel, /) -> None: ...

    def after_model(self, event: tw.AfterModel, /) -> None: ...

    def before_call(self, event: tw.BeforeCall, /) -> None: ...

    async def after_call(self, event: tw.AfterCall, /) -> None: ...


class CallsAtOnce:
    """A model that makes four calls in one answer, and then ends the run."""

    name = "bench"

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        calls = tuple([ModelCall(id=f"c{n}", name="look", arguments="{}") for n in range(4)])
        yield ModelResponse(calls=calls) if request.step == 1 else ModelResponse(text="done")


class OneCallAStep:
    """A model that calls one tool a step, `steps` times, and then ends the run."""

    name = "bench"

    def __init__(self, steps: int, call: ModelCall) -> None:
        self._steps = steps
        self._call = call

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        if request.step <= self._steps:
            yield ModelResponse(calls=(self._call,))
        else:
            yield ModelResponse(text="done")


def app_of(steps: int, tool: tw.Tool, arguments: str, hooks: int = 0) -> tw.App:
    """Return an app whose agent calls that tool once per step and also has the tools of the shop."""
    call = ModelCall(id="c", name=tool.name, arguments=arguments)
    tools = [tool, *(each for each in TOOLS if each.name != tool.name)]
    prompt = tw.Prompt("p", SYSTEM, model=OneCallAStep(steps, call), tools=tools)
    observers = [Observer() for _ in range(hooks)]
    return tw.App(agents=[tw.Agent("bench", tw.Side(prompt, max_steps=steps + 5), hooks=observers)])


async def _floor(steps: int) -> float:
    """Return the µs of a step of the same work without a journal: ask the model, dispatch the call."""
    model = OneCallAStep(steps, ModelCall(id="c", name=find_products.name, arguments=NESTED))
    tools = tw.Toolset(TOOLS)
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        async for event in model.respond(ModelRequest(messages=(), step=step)):
            if isinstance(event, ModelResponse):
                await tools.call(event.calls[0].name, event.calls[0].arguments)
    return (time.perf_counter() - begin) / steps * 1e6


async def _steps(steps: int, runs: int, hooks: int = 0) -> float:
    """Return the median µs of a step over some runs, one after another."""
    async with runtime(app_of(steps, find_products, NESTED, hooks)) as rt:
        taken: list[float] = []
        for _ in range(runs):
            thread = await rt.threads.create("bench")
            begin = time.perf_counter()
            run = await rt.threads.send(thread.id, "go")
            await rt.runs.wait(run.id)
            taken.append((time.perf_counter() - begin) / (steps + 1) * 1e6)
    return statistics.median(taken)


async def _parallel(runs: int, calls: int) -> float:
    """Return the percentage of the ideal time for `runs` concurrent runs, each with `calls` calls of 20 ms."""
    async with runtime(app_of(calls, wait, "{}")) as rt:
        threads = [await rt.threads.create("bench") for _ in range(runs)]
        begin = time.perf_counter()
        sent = await asyncio.gather(*[rt.threads.send(thread.id, "go") for thread in threads])
        await asyncio.gather(*[rt.runs.wait(run.id) for run in sent])
        return calls * 0.02 / (time.perf_counter() - begin) * 100


async def _four_calls(parallel: int) -> float:
    """Return the median ms of a run that makes four read-only calls of 50 ms in one answer."""
    agent = tw.Agent("bench", model=CallsAtOnce(), tools=[look], parallel=parallel)
    async with runtime(tw.App(agents=[agent])) as rt:
        taken: list[float] = []
        for _ in range(10):
            thread = await rt.threads.create("bench")
            begin = time.perf_counter()
            await rt.runs.wait((await rt.threads.send(thread.id, "go")).id)
            taken.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(taken)


async def _measure() -> list[Row]:
    floor = await _floor(2_000)
    without, one, five = [await _steps(20, 40, hooks) for hooks in (0, 1, 5)]
    return [
        Row("in-memory step, 1 call", await _steps(1, 200), "µs", floor, TARGET_STEP),
        Row("in-memory step, 20 calls", without, "µs", floor, TARGET_STEP),
        Row("the same with 1 hook at its four points", one, "µs", floor, None),
        Row("the same with 5 hooks", five, "µs", floor, None),
        Row("each further hook at each point", (five - one) / 16, "µs", None, 3.0),
        Row("in-memory step, 100 calls", await _steps(100, 10), "µs", floor, TARGET_STEP),
        Row("4 read-only calls of 50 ms, parallel=1", await _four_calls(1), "ms", 4 * LOOK * 1e3, None),
        Row("4 read-only calls of 50 ms, parallel=4", await _four_calls(4), "ms", LOOK * 1e3, None),
        Row("200 runs × 5 calls of 20 ms", await _parallel(200, 5), "% of ideal", 100.0, 70.0, better="more"),
    ]


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    return asyncio.run(_measure())
