"""Instruments of one runtime: its tracer, metrics, limits of span contents, and trace contexts."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from toolwright.core.env.logs import logger
from toolwright.core.journal.telemetry import Gauge
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Usage

W3C = TraceContextTextMapPropagator()
HEADER = "traceparent"
MAX_WAITING = 10_000  # maximum number of calls whose trace context a process keeps
INDENT = "  "
NAME = "toolwright"
UNKNOWN = "unknown"
"""Label of unknown tools, regardless of the name used by the model, because metrics of each label are kept forever."""
OTHER = "other"
"""Label of agents after the first `MAX_AGENTS`, because agents can be created over HTTP and labels are kept."""
MAX_AGENTS = 100
_GAUGES: tuple[tuple[Gauge, str], ...] = (
    ("ready", "1 if this process can serve requests, as /ready answers; otherwise 0."),
    ("pending_calls", "Calls waiting for a result."),
    ("inbox_events", "Unread events in inboxes."),
    ("inbox_oldest_seconds", "Age of the oldest unread event in an inbox."),
    ("runs_queued", "Runs that have not started."),
    ("runs_active", "Runs in progress."),
    ("runs_waiting", "Runs that wait for an approval, a call, a value or a model."),
    ("database_connections_used", "Database connections of this process that are in use."),
    ("database_connections_limit", "Most database connections that this process opens."),
    ("nodes", "Processes of the cluster with a recent heartbeat."),
    ("node_slots", "Runs that these processes can execute at once."),
    ("node_slots_busy", "Runs that these processes execute, by their last heartbeats."),
    (
        "node_clock_skew_seconds",
        "Largest difference between the clock of one of these processes and the database's.",
    ),
    (
        "wakes_oldest_due_seconds",
        "Time since the oldest unclaimed wake-up became due.",
    ),
)


def traceparent_of(context: Context | None) -> str | None:
    """Return the context as a `traceparent`, or None if nothing is traced in it. `None` means the current context."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, context)
    return carrier.get(HEADER)


def context_of(traceparent: str | None) -> Context:
    """Return the context of a `traceparent`. It has no trace if the text is invalid."""
    return Context() if traceparent is None else W3C.extract({HEADER: traceparent}, Context())


class WaitingCalls:
    """Trace contexts and agents of the newest calls that wait for an external result."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, tuple[str | None, str]] = OrderedDict()

    def put(self, call_id: str, traceparent: str | None, agent: str) -> None:
        """Record a waiting call of the agent."""
        self._calls[call_id] = traceparent, agent
        if len(self._calls) > MAX_WAITING:
            self._calls.popitem(last=False)

    def get(self, call_id: str) -> str | None:
        """Return the context of the call, or None if it is unknown."""
        return self._calls.get(call_id, (None, None))[0]

    def agent(self, call_id: str) -> str | None:
        """Return the agent of the call, or None if the call is unknown."""
        return self._calls.get(call_id, (None, None))[1]


class SpanIds(Protocol):
    """The ids of a span."""

    @property
    def trace_id(self) -> int: ...

    @property
    def span_id(self) -> int: ...


class EndedSpan(Protocol):
    """A span that has ended, as passed to OpenTelemetry's exporters."""

    @property
    def name(self) -> str: ...

    @property
    def context(self) -> SpanIds | None: ...

    @property
    def parent(self) -> SpanIds | None: ...

    @property
    def attributes(self) -> Mapping[str, object] | None: ...

    @property
    def start_time(self) -> int | None: ...


def trace_tree(spans: Sequence[EndedSpan]) -> str:
    """Render the spans as lines, each indented below its parent, in the order of their starts.

    A step is shown with its number, a failed call with its outcome: `execute_tool look: timeout`. A span whose parent
    is not among the spans is a root.
    """
    ids = {_id(span) for span in spans}
    below: defaultdict[tuple[int, int] | None, list[EndedSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda each: each.start_time or 0):
        parent = None if span.parent is None else (span.parent.trace_id, span.parent.span_id)
        below[parent if parent in ids else None].append(span)
    lines: list[str] = []
    waiting = [(span, 0) for span in reversed(below[None])]
    while waiting:
        span, depth = waiting.pop()
        lines.append(f"{INDENT * depth}{_line(span)}")
        waiting += [(each, depth + 1) for each in reversed(below[_id(span)])]
    return "\n".join(lines)


def _id(span: EndedSpan) -> tuple[int, int]:
    assert span.context is not None, "a span that has ended has its ids"
    return span.context.trace_id, span.context.span_id


def _line(span: EndedSpan) -> str:
    attributes = span.attributes or {}
    number = attributes.get("toolwright.step.number")
    outcome = attributes.get("toolwright.call.outcome", "success")
    line = span.name if number is None else f"{span.name} {number}"
    return line if outcome == "success" else f"{line}: {outcome}"


log = logger("toolwright.telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception of a handler, without secrets; `stack` is Python's text of the traceback."""

    type: str
    message: str
    stack: str


@contextmanager
def suppress_errors() -> Generator[None]:
    """Log errors of telemetry instead of failing the run.

    Span processors belong to the program and can raise any exception.
    """
    try:
        yield
    except Exception:
        log.exception("Telemetry failed. The run continues without it.")


class Metrics:
    """The metrics of a runtime."""

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(NAME)
        self._calls = meter.create_counter("toolwright.calls", description="Tool calls that have finished.")
        self._call_seconds = meter.create_histogram("toolwright.call.duration", "s", "Duration of calls.")
        self._step_seconds = meter.create_histogram("toolwright.step.duration", "s", "Duration of steps.")
        self._run_seconds = meter.create_histogram(
            "toolwright.run.duration", "s", "Duration of runs, from start to end."
        )
        self._answer_seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "Duration of model responses."
        )
        self._tokens = meter.create_counter(
            "toolwright.tokens", description="Tokens read and written by models."
        )
        self._cost = meter.create_counter(
            "toolwright.cost", description="Cost of models' answers, in US dollars."
        )
        self._compactions = meter.create_counter(
            "toolwright.compactions", description="Conversations compacted for their models."
        )
        self._compacted_tokens = meter.create_counter(
            "toolwright.compaction.tokens",
            description="Tokens of requests before and after compaction.",
        )
        self.streams = meter.create_up_down_counter(
            "toolwright.stream.readers", description="Readers of open streams."
        )
        self._values: dict[Gauge, float | None] = {}
        self._agents: set[str] = set()
        for name, description in _GAUGES:
            meter.create_observable_gauge(
                f"toolwright.{name}", [self._reading(name)], description=description
            )

    def agent(self, name: str) -> str:
        """Return the label of the agent: its name, or `OTHER` if there are too many labels already."""
        if name not in self._agents:
            if len(self._agents) >= MAX_AGENTS:
                return OTHER
            self._agents.add(name)
        return name

    def call(self, call: Call, outcome: str, seconds: float | None, agent: str) -> None:
        """Record a call's outcome; `seconds` since its start, or None if unknown."""
        labels = {"tool": call.name, "kind": call.kind, "outcome": outcome, "agent": agent}
        if outcome in ("unknown_tool", "not_begun"):  # the tool name might not have been looked up
            labels["tool"] = UNKNOWN
        self._calls.add(1, labels)
        if seconds is not None:
            self._call_seconds.record(seconds, labels)

    def compaction(self, told: JSONObject, agent: str) -> None:
        """Record a compaction, given the event `context.compacted`."""
        labels = {"cause": str(told["cause"]), "measure": str(told["measure"]), "agent": agent}
        self._compactions.add(1, labels)
        for when, tokens in (("before", told["tokensBefore"]), ("after", told["tokensAfter"])):
            if isinstance(tokens, int):
                self._compacted_tokens.add(tokens, labels | {"when": when})

    def step(self, seconds: float, agent: str) -> None:
        """Record a finished step."""
        self._step_seconds.record(seconds, {"agent": agent})

    def run(self, status: str, seconds: float, agent: str) -> None:
        """Record a finished run."""
        self._run_seconds.record(seconds, {"status": status, "agent": agent})

    def answer(
        self, model: str, seconds: float, usage: Usage | None, cost: float | None, agent: str = UNKNOWN
    ) -> None:
        """Record a model's answer or failure; a failure has no usage."""
        labels = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.agent.name": agent}
        self._answer_seconds.record(
            seconds, labels if usage is not None else labels | {"error.type": "model"}
        )
        if usage is not None:
            self._tokens.add(usage.input_tokens, labels | {"gen_ai.token.type": "input"})
            self._tokens.add(usage.output_tokens, labels | {"gen_ai.token.type": "output"})
        if cost:
            self._cost.add(cost, labels)

    def gauge(self, name: Gauge, value: float | None) -> None:
        """Set the current value of a gauge. None removes its sample."""
        self._values[name] = value

    def _reading(self, name: Gauge) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            value = self._values.get(name)
            return [] if value is None else [Observation(value)]

        return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """Tracer, metrics and options for the spans of a runtime.

    With `content` spans contain arguments and results. `report` gets the exceptions of handlers, within their spans.
    `agent` is the label of the traced agent.
    """

    tracer: Tracer
    metrics: Metrics
    content: bool = False
    report: Callable[[Failure], None] | None = None
    agent: str = UNKNOWN
