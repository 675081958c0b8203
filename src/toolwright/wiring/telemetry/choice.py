"""Choice of telemetry: what the settings and OpenTelemetry's own variables say."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolwright.wiring.settings import Settings

_NONE = "none"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryChoice:
    """The telemetry that is asked for: names of OpenTelemetry's exporters, and Sentry's DSN.

    It is `implied` if only an endpoint is set, which the host may have done for all its programs.
    """

    traces: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    sentry_dsn: str | None = None
    content: bool = False
    disabled: bool = False
    implied: bool = False

    @classmethod
    def read(cls, settings: Settings, environment: Mapping[str, str]) -> "TelemetryChoice":
        """As the settings and OpenTelemetry's own variables say."""
        if _is_true(environment.get("OTEL_SDK_DISABLED")):
            return cls(disabled=True)
        sentry_dsn = settings.sentry_dsn or environment.get("SENTRY_DSN") or None
        named = [_named(signal, environment) for signal in ("TRACES", "METRICS")]
        return cls(
            traces=_exporters("TRACES", environment),
            metrics=_exporters("METRICS", environment),
            sentry_dsn=sentry_dsn,
            implied=sentry_dsn is None and not any(name != _NONE for names in named for name in names),
            content=settings.trace_content or _is_true(environment.get(_CONTENT)),
        )

    def __bool__(self) -> bool:
        return bool(self.traces or self.metrics or self.sentry_dsn)


def _exporters(signal: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the signal's exporters: those that are listed, or `otlp` if there is an endpoint."""
    named = _named(signal, environment)
    if named:
        return tuple([name for name in named if name != _NONE])
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return ("otlp",) if any(environment.get(each) for each in endpoints) else ()


def _named(signal: str, environment: Mapping[str, str]) -> list[str]:
    listed = environment.get(f"OTEL_{signal}_EXPORTER", "").lower().split(",")
    return [name for name in dict.fromkeys(map(str.strip, listed)) if name]


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"
