"""The cost of telemetry for a step: disabled, and enabled with an exporter that drops everything."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from bench.loop import app_of
from bench.row import Row
from bench.shop import NESTED, find_products
from toolwright.adapters.system import SystemClock
from toolwright.adapters.telemetry.telemetry import OpenTelemetry
from toolwright.core.env.logs import CALL_ID
from toolwright.core.journal.telemetry import Telemetry
from toolwright.runtime.runtime import Runtime
from toolwright.testing import EmbeddedMotor, MemoryBus, MemoryStore, NoLock
from toolwright.wiring.gateway import settle_memory
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings

STEPS, RUNS = 20, 40
SPANS = 4  # per step: the step, its prompt, its answer, its call
CHECKS = 5  # places in a step that check for an observer: two commits, the answer, the call, its log lines
OFF_TARGET = 0.05  # fraction of a step


class Dropping(SpanExporter):
    """An exporter that drops everything."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def _tracers() -> TracerProvider:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(Dropping(), max_queue_size=100_000))
    return tracers


@asynccontextmanager
async def _at_work(telemetry: Telemetry | None) -> AsyncGenerator[Runtime]:
    bus, clock = MemoryBus(), SystemClock()
    store = MemoryStore(bus.publish)
    motor = EmbeddedMotor(store, clock, NoLock())
    parts = DefaultParts(store=store, motor=motor, bus=bus, clock=clock, telemetry=telemetry)
    runtime = Runtime(app_of(STEPS, find_products, NESTED).catalog, parts, Settings())
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop(1.0)


async def _step(make: Callable[[], Telemetry | None]) -> float:
    """Return the median µs of a step over some runs."""
    taken: list[float] = []
    async with _at_work(make()) as runtime:
        for _ in range(RUNS):
            thread = await runtime.threads.create("bench")
            begin = time.perf_counter()
            run = await runtime.threads.send(thread.id, "go")
            await runtime.runs.wait(run.id)
            taken.append((time.perf_counter() - begin) / (STEPS + 1) * 1e6)
    return statistics.median(taken)


def _off() -> None:
    return None


def _on() -> Telemetry:
    return OpenTelemetry(_tracers(), MeterProvider(shutdown_on_exit=False))


class _Unwatched:
    trace: object = None


def _checks(repeat: int = 100_000) -> float:
    """Return the µs that a step spends on disabled telemetry: the checks, and the call's id for logs."""
    context = _Unwatched()
    begin = time.perf_counter()
    for _ in range(repeat):
        for _ in range(CHECKS):
            if context.trace is not None:
                raise AssertionError("nobody watches")
        CALL_ID.reset(CALL_ID.set("call_1"))
    return (time.perf_counter() - begin) / repeat * 1e6


def _spans(repeat: int = 5_000) -> float:
    """Return the µs to start and end directly as many spans as a step has."""
    tracer = _tracers().get_tracer("bench")
    begin = time.perf_counter()
    for _ in range(repeat):
        for _ in range(SPANS):
            tracer.start_span("step", attributes={"a": 1, "b": "two", "c": "three"}).end()
    return (time.perf_counter() - begin) / repeat * 1e6


def run() -> list[Row]:
    """Measure the rows of this benchmark, with the interpreter settings of `serve`."""
    settle_memory()
    off, on, spans, checks = asyncio.run(_step(_off)), asyncio.run(_step(_on)), _spans(), _checks()
    return [
        Row("step without telemetry, what it does for telemetry", checks, "µs", off, OFF_TARGET * off),
        Row("step with telemetry whose exporter drops all", on, "µs", off, None),
        Row("telemetry of a step beside its spans by hand", on - off, "µs", spans, None),
    ]
