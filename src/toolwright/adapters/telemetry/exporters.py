"""Exporters by the names that OpenTelemetry's variables have for them, and who it is that exports."""

from collections.abc import Callable
from importlib.metadata import entry_points
from os import environ
from typing import Any

from opentelemetry.sdk.resources import SERVICE_NAME, Resource

from toolwright.adapters.telemetry.instruments import NAME
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
