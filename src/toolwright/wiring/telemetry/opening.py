"""Telemetry of a process: opened where its environment asks for it, or its program has set OpenTelemetry up."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from toolwright.core.errors import install, missing_extra
from toolwright.core.journal.telemetry import Telemetry
from toolwright.wiring.settings import Settings
from toolwright.wiring.telemetry.choice import TelemetryChoice

log = logging.getLogger("toolwright.telemetry")


def open_telemetry(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    load: Callable[[str], ModuleType] = import_module,
) -> Telemetry | None:
    """The telemetry that is wanted, None if none is. `load` finds modules by their names.

    Raises `MissingExtra`, or `DefinitionError` for an exporter that there is not. If only an endpoint is set and the
    extra is missing, the log warns once.
    """
    choice = TelemetryChoice.read(settings, os.environ if environment is None else environment)
    if choice.disabled or not (choice or _set_up()):
        return None
    try:
        providers = load("toolwright.adapters.telemetry.providers")  # by name: it needs the extra
        if not choice:
            used: Telemetry = providers.use_providers(content=choice.content)
            return used
        opened: Telemetry = providers.open_providers(
            traces=choice.traces,
            metrics=choice.metrics,
            sentry_dsn=choice.sentry_dsn,
            content=choice.content,
        )
    except ModuleNotFoundError as error:
        if choice.implied:
            _warn_of_missing_extra()
            return None
        extra = "sentry" if choice.sentry_dsn is not None else "telemetry"
        raise missing_extra("Telemetry", extra, error) from error
    return opened


@cache
def _warn_of_missing_extra() -> None:
    """Once a process: the endpoint may be set for all programs of this host."""
    log.warning(
        "An OTLP endpoint is set, but opentelemetry-sdk is not installed, so nothing is exported: %s, or set "
        "OTEL_SDK_DISABLED=true.",
        install("telemetry"),
    )


def _set_up() -> bool:
    """Return whether the program has set OpenTelemetry up itself; what is not loaded it has not."""
    signals = {
        "trace": ("get_tracer_provider", "TracerProvider"),
        "metrics": ("get_meter_provider", "MeterProvider"),
    }
    for name, (get, provider) in signals.items():
        api, sdk = sys.modules.get(f"opentelemetry.{name}"), sys.modules.get(f"opentelemetry.sdk.{name}")
        if api is not None and sdk is not None and isinstance(getattr(api, get)(), getattr(sdk, provider)):
            return True
    return False
