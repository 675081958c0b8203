"""The trace context of a call that is carried out here, where the program has OpenTelemetry."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module


@contextmanager
def trace_context(traceparent: str | None) -> Generator[None]:
    """Within the block, and in tasks that it begins, what is traced is below that W3C trace context."""
    if traceparent is None:
        yield
        return
    try:
        context = import_module("opentelemetry.context")  # by name: a worker needs none of it
        w3c = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()
    except ModuleNotFoundError:
        yield
        return
    token = context.attach(w3c.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
