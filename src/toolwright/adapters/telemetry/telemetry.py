"""Telemetry port on OpenTelemetry: records runs as spans and metrics, and sets up providers and exporters."""

import atexit
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from os import environ
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
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
    W3C,
    Failure,
    Instruments,
    Metrics,
    WaitingCalls,
    suppress_errors,
    traceparent_of,
)
from toolwright.adapters.telemetry.spans import RunSpans
from toolwright.core.errors import DefinitionError
from toolwright.core.journal.telemetry import Gauge, RunTrace
from toolwright.core.threads.call import Call
from toolwright.core.threads.run import Run

log = logging.getLogger("toolwright.telemetry")

PATIENCE = 3.0  # seconds for which a stopping process waits for exporters
_UNKNOWN = "unknown_service"


class OpenTelemetry:
    """Records runs as OpenTelemetry spans and metrics, using the global providers if they are configured.

    With `content` spans contain arguments and results, redacted and truncated. `exposition` returns the metrics as
    text. `report` receives exceptions of handlers. `ends` are called in a thread when the runtime stops.
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
        self._waiting = WaitingCalls()
        self._exposition = exposition
        self._ends = ends

    def lead(self, run: Run, agent: str, calls: Sequence[Call]) -> RunTrace | None:
        """Start and return the spans of a run."""
        with suppress_errors():
            return RunSpans(self._instruments, self._waiting, run, agent, calls)
        return None

    def current(self) -> str | None:
        """Return the trace context of the current span."""
        return traceparent_of(None)

    def of_call(self, call_id: str) -> str | None:
        """Return the trace context of a waiting call."""
        return self._waiting.get(call_id)

    def request(self, method: str, template: str) -> AbstractContextManager["HttpSpan"]:
        """Start and return a client span for a request."""
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
        """Make the caller's span current within the block, if the headers contain one."""
        return _incoming(headers)

    def settled(self, call: Call, outcome: str) -> None:
        """Record a pending call that was settled externally."""
        self._metrics.call(call, outcome, None, self._waiting.agent(call.id) or UNKNOWN)

    def gauge(self, name: Gauge, value: float | None) -> None:
        """Set the current value of a gauge."""
        self._metrics.gauge(name, value)

    def streams(self, change: int) -> None:
        """Add to the number of stream readers."""
        self._metrics.streams.add(change)

    def exposition(self) -> str | None:
        """Return the metrics as text."""
        return None if self._exposition is None else self._exposition()

    async def close(self) -> None:
        """Start flushing pending telemetry. The end of the process waits for it, for a limited time."""
        if self._ends:
            _HANDOVER.begin(self._ends)


class _Handover:
    """Flushes spans and metrics in a thread, so that closing a runtime does not wait for a hanging exporter."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._again: Sequence[Callable[[], object]] = ()

    def begin(self, ends: Sequence[Callable[[], object]]) -> None:
        """Call these functions in the thread, after the functions that are queued there."""
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
                    log.exception("Telemetry could not be shut down.")
            ends, self._again = self._again, ()

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.join(PATIENCE)


_HANDOVER = _Handover()
"""Shared by the whole process, as its providers are."""


class HttpSpan:
    """The span of a request."""

    def __init__(self, span: Span) -> None:
        self._span = span
        carrier: dict[str, str] = {}
        W3C.inject(carrier)
        self.headers: Sequence[tuple[str, str]] = tuple(carrier.items())

    def answered(self, status: int) -> None:
        """Record the status of the answer. A status of 400 or more is an error."""
        self._span.set_attribute("http.response.status_code", status)
        if status >= 400:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(Status(StatusCode.ERROR))


@contextmanager
def _incoming(headers: Mapping[str, str]) -> Generator[None]:
    context = W3C.extract(headers, Context())
    # the program's own server span has already adopted the caller's
    caller, current = (trace.get_current_span(each).get_span_context() for each in (context, None))
    if not caller.is_valid or caller.trace_id == current.trace_id:
        yield
        return
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def exporter_of(signal: str, name: str) -> Any:  # the library's type
    """Return an exporter by its name in OpenTelemetry's environment variables."""
    if name == "otlp":
        protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    matches = [*entry_points(group=f"opentelemetry_{signal}_exporter", name=name)]
    if not matches:
        raise DefinitionError(f"No exporter for {signal} called {name!r} here: install it, or name another.")
    make: Callable[[], object] = matches[0].load()
    return make()


def resource() -> Resource:
    resource = Resource.create()
    service_name = str(resource.attributes.get(SERVICE_NAME, _UNKNOWN))
    return resource.merge(Resource({SERVICE_NAME: NAME})) if service_name.startswith(_UNKNOWN) else resource


def use_providers(*, content: bool) -> OpenTelemetry:
    """Return the telemetry of a program that has set up its own providers."""
    return OpenTelemetry(trace.get_tracer_provider(), metrics.get_meter_provider(), content=content)


def open_providers(
    *, traces: Sequence[str], metrics: Sequence[str], sentry_dsn: str | None, content: bool
) -> OpenTelemetry:
    """Return the telemetry of this process. Its providers belong to the process: a second runtime shares them.

    They are flushed when a runtime stops, and not shut down, because others can use them. Raises `DefinitionError` if
    an exporter is not installed.
    """
    tracers = trace.get_tracer_provider() if not traces and sentry_dsn is None else _tracers(traces)
    meters, exposition = _meters(metrics)
    report: Callable[[Failure], None] | None = None
    flushes = [getattr(each, "force_flush", None) for each in (tracers, meters)]  # no spans, nothing to flush
    ends: list[Callable[[], object]] = [each for each in flushes if each is not None]
    if sentry_dsn is not None:
        sentry = import_module("toolwright.adapters.telemetry.sentry")  # by name: it needs its own extra
        sentry.begin(sentry_dsn)
        report = sentry.report
        ends.append(sentry.flush)
    return OpenTelemetry(tracers, meters, content=content, exposition=exposition, report=report, ends=ends)


def _tracers(exporters: Sequence[str]) -> SdkTracerProvider:
    provider = trace.get_tracer_provider()
    if isinstance(provider, SdkTracerProvider):
        return provider
    sdk_provider = SdkTracerProvider(resource=resource(), shutdown_on_exit=False)
    for exporter in exporters:
        sdk_provider.add_span_processor(BatchSpanProcessor(exporter_of("traces", exporter)))
    trace.set_tracer_provider(sdk_provider)  # so that spans created by tools use the same providers
    return sdk_provider


def _meters(exporters: Sequence[str]) -> tuple[MeterProvider, Callable[[], str] | None]:
    """Return the provider, and the function that renders its metrics as text if it is `Meters`."""
    # imported by name, because a program with its own provider does not need it
    ours = import_module("toolwright.adapters.telemetry.meters")
    sdk = import_module("opentelemetry.sdk.metrics")
    provider = metrics.get_meter_provider()
    if not isinstance(provider, sdk.MeterProvider):
        provider = ours.Meters(exporters)
        metrics.set_meter_provider(provider)
    untyped: Any = provider  # the class of `ours` was imported by name
    return provider, untyped.text if isinstance(provider, ours.Meters) else None
