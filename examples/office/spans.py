"""Collects the spans of runs and renders them as a tree. Needs the extra `telemetry`."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolwright.testing import trace_tree


class Spans:
    """Collects the spans of all runs that begin after it was created."""

    def __init__(self) -> None:
        self._exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        trace.set_tracer_provider(provider)

    def clear(self) -> None:
        """Drop the spans collected so far."""
        self._exporter.clear()

    def tree(self) -> str:
        """Return the spans as indented lines: runs, their steps, and the calls of the steps."""
        return trace_tree(self._exporter.get_finished_spans())
