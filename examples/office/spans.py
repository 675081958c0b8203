"""The spans of runs, collected to be printed as a tree; this needs the extra `telemetry`."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolwright.testing import trace_tree


class Spans:
    """Those of all runs that begin from now on."""

    def __init__(self) -> None:
        self._exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        trace.set_tracer_provider(provider)

    def forget(self) -> None:
        """What was collected so far is not printed."""
        self._exporter.clear()

    def tree(self) -> str:
        """Each run with its steps, and those with their calls."""
        return trace_tree(self._exporter.get_finished_spans())
