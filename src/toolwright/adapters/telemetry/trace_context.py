"""Trace contexts: as texts, and how the spans of a run lie below each other."""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

W3C = TraceContextTextMapPropagator()
HEADER = "traceparent"
MOST_WAITING = 10_000  # calls of which a process knows the trace context


def traceparent_of(context: Context | None) -> str | None:
    """The text of the context, the current one for None; None if nothing is traced in it."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier, context)
    return carrier.get(HEADER)


def context_of(traceparent: str | None) -> Context:
    """The context of that text; one without any trace if it says none."""
    return Context() if traceparent is None else W3C.extract({HEADER: traceparent}, Context())


class Waiting:
    """Trace contexts and agents of calls that wait for somebody outside, those of the newest."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, tuple[str | None, str]] = OrderedDict()

    def put(self, call_id: str, traceparent: str | None, agent: str) -> None:
        """A call of the agent waits."""
        self._calls[call_id] = traceparent, agent
        if len(self._calls) > MOST_WAITING:
            self._calls.popitem(last=False)

    def get(self, call_id: str) -> str | None:
        """The context of the call, None if it is not known here."""
        return self._calls.get(call_id, (None, None))[0]

    def agent(self, call_id: str) -> str | None:
        """The agent of the call, None if the call is not known here."""
        return self._calls.get(call_id, (None, None))[1]


INDENT = "  "


class SpanIds(Protocol):
    """The ids of a span."""

    @property
    def trace_id(self) -> int: ...

    @property
    def span_id(self) -> int: ...


class EndedSpan(Protocol):
    """A span that has ended, as OpenTelemetry's exporters get it."""

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
    """The spans as lines, each below its parent and behind those that began before it.

    A step has its number, a call that is no success what it has come to: `execute_tool look: timeout`. A span whose
    parent is not among them begins a tree of its own.
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
