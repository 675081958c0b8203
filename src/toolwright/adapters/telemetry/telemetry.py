"""The `Telemetry` port by OpenTelemetry."""

import logging
import threading
from asyncio import get_running_loop
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

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

from toolwright.adapters.telemetry.instruments import NAME, Failure, Instruments, Metrics, harmless
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
    text. `report` gets exceptions of handlers. `ends` are called, in a thread, when the runtime stops.
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
        with harmless():
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
        with harmless():
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
            with harmless():
                span.end()

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[None]:
        """Within the block the caller's span is the current one, if the headers name one."""
        return _incoming(headers)

    def settled(self, call: Call, outcome: str) -> None:
        """A pending call's end from outside is counted."""
        self._metrics.call(call, outcome, None)

    def gauge(self, name: Gauge, value: int) -> None:
        """A figure that is read now and then."""
        self._metrics.gauge(name, value)

    def streams(self, change: int) -> None:
        """Readers of streams."""
        self._metrics.streams.add(change)

    def exposition(self) -> str | None:
        """The figures as text."""
        return None if self._exposition is None else self._exposition()

    async def close(self) -> None:
        """Hand over what is there. A process does not wait long for an exporter that hangs."""
        if not self._ends:
            return
        loop = get_running_loop()
        ended = loop.create_future()

        def end() -> None:
            for each in self._ends:
                try:
                    each()
                except Exception:
                    log.exception("The end of the telemetry failed.")
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(lambda: ended.done() or ended.set_result(None))

        threading.Thread(target=end, name="toolwright-telemetry-end", daemon=True).start()
        timer = loop.call_later(PATIENCE, lambda: ended.done() or ended.set_result(None))
        await ended
        timer.cancel()


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
