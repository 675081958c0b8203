"""The providers of OpenTelemetry, and where they export to."""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from os import environ
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from toolwright.adapters.telemetry.instruments import NAME, Failure
from toolwright.adapters.telemetry.telemetry import OpenTelemetry
from toolwright.core.errors import DefinitionError

_UNKNOWN = "unknown_service"


def exporter_of(signal: str, name: str) -> Any:  # as the library whose it is has typed it
    """An exporter by the name that OpenTelemetry's variables have for it."""
    if name == "otlp":
        protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = [*entry_points(group=f"opentelemetry_{signal}_exporter", name=name)]
    if not found:
        raise DefinitionError(
            f"There is no exporter of {signal} called {name!r} here: install it, or name another."
        )
    make: Callable[[], object] = found[0].load()
    return make()


def resource() -> Resource:
    resource = Resource.create()
    named = str(resource.attributes.get(SERVICE_NAME, _UNKNOWN))
    return resource.merge(Resource({SERVICE_NAME: NAME})) if named.startswith(_UNKNOWN) else resource


def use_providers(*, content: bool) -> OpenTelemetry:
    """The telemetry of a program that has set its providers up by itself."""
    return OpenTelemetry(trace.get_tracer_provider(), metrics.get_meter_provider(), content=content)


def open_providers(
    *, traces: Sequence[str], metrics: Sequence[str], sentry_dsn: str | None, content: bool
) -> OpenTelemetry:
    """The telemetry of this process. Its providers are the process's own: a second runtime has the same.

    They are handed what is there when a runtime stops, and not shut down: others may use them. Raises
    `DefinitionError` for an exporter that is not installed.
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


def _tracers(exporters: Sequence[str]) -> TracerProvider:
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        return provider
    made = TracerProvider(resource=resource(), shutdown_on_exit=False)
    for exporter in exporters:
        made.add_span_processor(BatchSpanProcessor(exporter_of("traces", exporter)))
    trace.set_tracer_provider(made)  # so that what tools trace themselves goes the same way
    return made


def _meters(exporters: Sequence[str]) -> tuple[MeterProvider, Callable[[], str] | None]:
    """The provider, and its figures as text if it is one of ours."""
    ours = import_module(
        "toolwright.adapters.telemetry.meters"
    )  # by name: a program with its own needs it not
    sdk = import_module("opentelemetry.sdk.metrics")
    provider = metrics.get_meter_provider()
    if not isinstance(provider, sdk.MeterProvider):
        provider = ours.Meters(exporters)
        metrics.set_meter_provider(provider)
    made: Any = provider  # the class of `ours` is known by name alone
    return provider, made.text if isinstance(provider, ours.Meters) else None
