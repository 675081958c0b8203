"""Meter provider whose metrics can also be read as text. Needs the Prometheus library."""

from collections.abc import Sequence

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from toolwright.adapters.telemetry.telemetry import exporter_of, resource

_PROMETHEUS = "prometheus"


class Meters(MeterProvider):
    """Meter provider whose metrics can also be read as text in Prometheus format."""

    def __init__(self, exporters: Sequence[str]) -> None:
        self._registry = CollectorRegistry()
        readers: list[MetricReader] = [
            PrometheusMetricReader(
                registry=self._registry, disable_target_info=True, scope_info_enabled=False
            )
        ]
        readers += [
            PeriodicExportingMetricReader(exporter_of("metrics", exporter))
            for exporter in exporters
            if exporter != _PROMETHEUS
        ]
        super().__init__(readers, resource(), shutdown_on_exit=False)

    def text(self) -> str:
        """Return the current metrics in Prometheus format."""
        return generate_latest(self._registry).decode()
