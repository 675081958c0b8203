"""OpenTelemetry's providers: those of the program, else our own with the exporters that are named."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from toolwright.adapters.telemetry.exporters import exporter_of, resource
from toolwright.adapters.telemetry.instruments import Failure
from toolwright.adapters.telemetry.telemetry import OpenTelemetry


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
