"""The `Telemetry` port by OpenTelemetry."""

import atexit
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    set_span_in_context,
)

from toolwright.adapters.telemetry.instruments import (
    NAME,
    UNKNOWN,
    Failure,
    Instruments,
    Metrics,
    suppress_errors,
)
from toolwright.adapters.telemetry.run_spans import RunSpans
from toolwright.adapters.telemetry.trace_context import W3C, Waiting, traceparent_of
from toolwright.core.journal.telemetry import Gauge, RunTrace
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Run

log = logging.getLogger("toolwright.telemetry")

PATIENCE = 3.0  # seconds that a process which stops waits for exporters


class OpenTelemetry:
    """Watches runs by OpenTelemetry's providers, whoever has made them.

    With `content` spans hold arguments and results, without secrets and bounded. `exposition` gives the figures as
    text. `report` gets exceptions of handlers. `ends` are called in a thread when the runtime stops.
    """

    def __init__(
        self,
        tracers: TracerProvider,
        meters: MeterProvider,
        *,
        content: bool = False,
        exposition: Callable[[], str] | None = None,
        report: Callable[[Failure], None] | None = None,
        ends: Sequence[Callable[[], object]] = (),
    ) -> None:
        self._metrics = Metrics(meters)
        self._instruments = Instruments(
            tracer=tracers.get_tracer(NAME), metrics=self._metrics, content=content, report=report
        )
        self._waiting = Waiting()
        self._exposition = exposition
        self._ends = ends

    def lead(
        self, run: Run, agent: str, calls: Sequence[Call], redact: Callable[[str], str]
    ) -> RunTrace | None:
        """The spans of a run."""
        with suppress_errors():
            return RunSpans(self._instruments, self._waiting, run, agent, calls, redact)
        return None

    def current(self) -> str | None:
        """The trace context of the current span."""
        return traceparent_of(None)

    def of_call(self, call_id: str) -> str | None:
        """The trace context of a call that waits."""
        return self._waiting.get(call_id)

    def request(self, method: str, template: str) -> AbstractContextManager["HttpSpan"]:
        """A client's span for a request."""
        return self._request(method, template)

    @contextmanager
    def _request(self, method: str, template: str) -> Generator["HttpSpan"]:
        attributes = {"http.request.method": method, "url.template": template}
        name, span = f"{method} {template}", INVALID_SPAN
        with suppress_errors():
            span = self._instruments.tracer.start_span(name, None, SpanKind.CLIENT, attributes)
        token = attach(set_span_in_context(span))
        try:
            yield HttpSpan(span)
        except Exception as error:
            code = getattr(error, "code", None)
            span.set_attribute("error.type", code if isinstance(code, str) else type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            detach(token)
            with suppress_errors():
                span.end()

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Within the block the caller's span is the current one, if the headers name one."""
        return _incoming(headers)

    def settled(self, call: Call, outcome: str) -> None:
        """A pending call's end from outside is counted."""
        self._metrics.call(call, outcome, None, self._waiting.agent(call.id) or UNKNOWN)

    def gauge(self, name: Gauge, value: float) -> None:
        """A figure that is read now and then."""
        self._metrics.gauge(name, value)

    def streams(self, change: int) -> None:
        """Readers of streams."""
        self._metrics.streams.add(change)

    def exposition(self) -> str | None:
        """The figures as text."""
        return None if self._exposition is None else self._exposition()

    async def close(self) -> None:
        """Begin to hand over what is there; the end of the process waits for that, and not long."""
        if self._ends:
            _HANDOVER.begin(self._ends)


class _Handover:
    """Hands over spans and figures in a thread: whoever closes a runtime waits for no exporter that hangs."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._again: Sequence[Callable[[], object]] = ()

    def begin(self, ends: Sequence[Callable[[], object]]) -> None:
        """Call these in a thread, after those that are called there already."""
        if self._thread is None:
            atexit.register(self._finish)
        if self._thread is not None and self._thread.is_alive():
            self._again = ends
            return
        self._thread = threading.Thread(
            target=self._call, args=(ends,), name="toolwright-telemetry-end", daemon=True
        )
        self._thread.start()

    def _call(self, ends: Sequence[Callable[[], object]]) -> None:
        while ends:
            for each in ends:
                try:
                    each()
                except Exception:
                    log.exception("The end of the telemetry failed.")
            ends, self._again = self._again, ()

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.join(PATIENCE)


_HANDOVER = _Handover()
"""The one of this process, as its providers are."""


class HttpSpan:
    """The span of a request."""

    def __init__(self, span: Span) -> None:
        self._span = span
        carrier: dict[str, str] = {}
        W3C.inject(carrier)
        self.headers: Sequence[tuple[str, str]] = tuple(carrier.items())

    def answered(self, status: int) -> None:
        """The status of the answer; from 400 on it is an error."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def _incoming(headers: Mapping[str, str]) -> Generator[None]:
    context = W3C.extract(headers, Context())
    caller, current = (
        trace.get_current_span(each).get_span_context() for each in (context, None)
    )  # a server span of the program's own has taken the caller's in
    if not caller.is_valid or caller.trace_id == current.trace_id:
        yield
        return
    token = attach(context)
    try:
        yield
    finally:
        detach(token)
