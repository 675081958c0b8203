"""Telemetry whose spans and metrics stay in memory."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolwright as tw
from tests.databases import OpenStore
from toolwright.adapters.system import SystemClock
from toolwright.adapters.telemetry.instruments import Failure
from toolwright.adapters.telemetry.telemetry import OpenTelemetry
from toolwright.core.threads.run import Run
from toolwright.core.tools.function import FunctionExecutor
from toolwright.runtime.runtime import Runtime
from toolwright.testing import (
    EmbeddedMotor,
    ManualClock,
    ManualMotor,
    MemoryBus,
    MemoryStore,
    NoLock,
    ScriptedModel,
    trace_tree,
)
from toolwright.wiring.executors import HttpTools
from toolwright.wiring.parts import DefaultParts
from toolwright.wiring.settings import Settings


@dataclass
class Watching:
    """The telemetry under test, and the data that it has collected."""

    content: bool = False
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    failures: list[Failure] = field(default_factory=list[Failure])
    tracers: TracerProvider = field(default_factory=lambda: TracerProvider(shutdown_on_exit=False))

    def __post_init__(self) -> None:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = OpenTelemetry(
            self.tracers, meters, content=self.content, report=self.failures.append
        )

    @property
    def ended(self) -> Sequence[ReadableSpan]:
        """The ended spans."""
        return self.spans.get_finished_spans()

    @property
    def tree(self) -> str:
        """The spans as a tree, without the spans of prompts, inboxes and processes, which every run has."""
        seen = [span for span in self.ended if span.name not in ("build_prompt", "read_inbox")]
        return trace_tree([span for span in seen if not span.name.startswith("execute_run ")])

    def span(self, name: str) -> ReadableSpan:
        """The one span of that name."""
        [span] = [each for each in self.ended if each.name == name]
        return span

    @property
    def traces(self) -> int:
        """Number of traces."""
        return len({span.context.trace_id for span in self.ended if span.context is not None})

    @property
    def written(self) -> str:
        """The text of all spans."""
        return "\n".join(span.to_json() for span in self.ended)


@asynccontextmanager
async def at_work(
    app: tw.App, watching: Watching, store: OpenStore | None = None, inline_wait: float = 1.0
) -> AsyncGenerator[Runtime]:
    """Run the app with telemetry."""
    bus = MemoryBus()
    journal = MemoryStore(bus.publish) if store is None else await store(bus)
    http_tools = HttpTools(Settings(), watching.telemetry)
    parts = DefaultParts(
        store=journal,
        motor=EmbeddedMotor(journal, SystemClock(), NoLock(), sweep=0.02),
        bus=bus,
        executors={"function": FunctionExecutor(), "gateway": http_tools},
        close=(http_tools.aclose,),
        telemetry=watching.telemetry,
    )
    rt = Runtime(app.catalog, parts, Settings(), inline_wait)
    await rt.start()
    try:
        yield rt
    finally:
        await rt.stop(1.0)


@asynccontextmanager
async def by_hand(app: tw.App, watching: Watching) -> AsyncGenerator[tuple[Runtime, ManualMotor]]:
    """Run the app with telemetry and a motor that is turned by hand."""
    bus, clock = MemoryBus(), ManualClock()
    journal = MemoryStore(bus.publish)
    motor = ManualMotor(journal, clock)
    parts = DefaultParts(store=journal, motor=motor, bus=bus, clock=clock, telemetry=watching.telemetry)
    rt = Runtime(app.catalog, parts, Settings(), inline_wait=0.0)
    await rt.start()
    try:
        yield rt, motor
    finally:
        await rt.stop(0.0)


async def led(rt: Runtime, agent: str, text: str = "go") -> Run:
    """Execute a run of the agent in a new thread until it ends or is suspended."""
    thread = await rt.threads.create(agent)
    return await rt.runs.wait((await rt.threads.send(thread.id, text)).id, 20)


DONE: dict[str, object] = {"text": "Done."}


def agent_of(name: str, turns: Sequence[object], *tools: tw.Tool | str, **options: Any) -> tw.Agent:
    """Return an agent of one prompt, whose model answers with these turns."""
    prompt = tw.Prompt(name, "You work.", model=ScriptedModel(turns), tools=list(tools))
    return tw.Agent(name, prompt, **options)


def lines(text: str) -> str:
    """Return the text without the indentation that it has in a test."""
    rows = text.strip("\n").rstrip().split("\n")
    margin = len(rows[0]) - len(rows[0].lstrip())
    return "\n".join(row[margin:] for row in rows)
