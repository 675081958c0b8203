"""Telemetry of a process: enabled by settings, OpenTelemetry's own variables, or the program."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType

from toolwright.core.errors import DefinitionError, install, missing_extra
from toolwright.core.journal.telemetry import Telemetry
from toolwright.core.text import sentence
from toolwright.wiring.settings import Settings

_NONE = "none"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
log = logging.getLogger("toolwright.telemetry")


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryChoice:
    """The requested telemetry: names of OpenTelemetry's exporters, and Sentry's DSN.

    It is `implied` if only an endpoint is set, which can be set for all programs of the host.
    """

    traces: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    sentry_dsn: str | None = None
    content: bool = False
    disabled: bool = False
    implied: bool = False

    @classmethod
    def read(cls, settings: Settings, environment: Mapping[str, str]) -> "TelemetryChoice":
        """Return the choice made in the settings and in OpenTelemetry's own variables."""
        if _is_true(environment.get("OTEL_SDK_DISABLED")):
            return cls(disabled=True)
        sentry_dsn = settings.sentry_dsn or environment.get("SENTRY_DSN") or None
        exporters = [_exporter_names(signal, environment) for signal in ("TRACES", "METRICS")]
        return cls(
            traces=_exporters("TRACES", environment),
            metrics=_exporters("METRICS", environment),
            sentry_dsn=sentry_dsn,
            implied=sentry_dsn is None and not any(name != _NONE for names in exporters for name in names),
            content=settings.trace_content or _is_true(environment.get(_CONTENT)),
        )

    def __bool__(self) -> bool:
        return bool(self.traces or self.metrics or self.sentry_dsn)


def _exporters(signal: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the signal's exporters: the listed ones, or `otlp` if only an endpoint is set."""
    exporter = _exporter_names(signal, environment)
    if exporter:
        return tuple([name for name in exporter if name != _NONE])
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return ("otlp",) if any(environment.get(each) for each in endpoints) else ()


def _exporter_names(signal: str, environment: Mapping[str, str]) -> list[str]:
    listed = environment.get(f"OTEL_{signal}_EXPORTER", "").lower().split(",")
    return [name for name in dict.fromkeys(map(str.strip, listed)) if name]


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"


def open_telemetry(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    load: Callable[[str], ModuleType] = import_module,
) -> Telemetry | None:
    """Return the requested telemetry, or None if none is requested. `load` imports modules by name.

    Raises `MissingExtra`, or `DefinitionError` for an unknown exporter or an invalid variable. If only an endpoint is
    set and the extra is missing, a warning is logged once.
    """
    choice = TelemetryChoice.read(settings, os.environ if environment is None else environment)
    if choice.disabled or not (choice or _is_set_up()):
        return None
    try:
        providers = load("toolwright.adapters.telemetry.telemetry")  # lazily: it needs the extra
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
            _warn_about_missing_extra()
            return None
        extra = "sentry" if choice.sentry_dsn is not None else "telemetry"
        raise missing_extra("Telemetry", extra, error) from error
    except (ValueError, OSError) as error:  # the libraries read their own variables
        raise DefinitionError(
            sentence(f"Telemetry cannot be set up with these variables (OTEL_…): {error}")
        ) from error
    return opened


@cache
def _warn_about_missing_extra() -> None:
    """Warn once per process: the endpoint may be set for all programs of this host."""
    log.warning(
        "An OTLP endpoint is set, but opentelemetry-sdk is not installed, so nothing is exported: %s, or set "
        "OTEL_SDK_DISABLED=true.",
        install("telemetry"),
    )


def _is_set_up() -> bool:
    """Return whether the program has configured OpenTelemetry itself. If the API is not imported, it has not."""
    signals = {
        "trace": ("get_tracer_provider", "TracerProvider"),
        "metrics": ("get_meter_provider", "MeterProvider"),
    }
    for name, (get, provider) in signals.items():
        api, sdk = sys.modules.get(f"opentelemetry.{name}"), sys.modules.get(f"opentelemetry.sdk.{name}")
        if api is not None and sdk is not None and isinstance(getattr(api, get)(), getattr(sdk, provider)):
            return True
    return False
