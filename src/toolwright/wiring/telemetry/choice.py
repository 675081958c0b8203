"""Choice of telemetry: what the settings and OpenTelemetry's own variables say."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolwright.wiring.settings import Settings

_NONE = "none"
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryChoice:
    """The telemetry that is asked for: names of OpenTelemetry's exporters, None for none; Sentry's DSN."""

    traces: str | None = None
    metrics: str | None = None
    sentry_dsn: str | None = None
    content: bool = False
    disabled: bool = False

    @classmethod
    def read(cls, settings: Settings, environment: Mapping[str, str]) -> "TelemetryChoice":
        """As the settings and OpenTelemetry's own variables say."""
        if _is_true(environment.get("OTEL_SDK_DISABLED")):
            return cls(disabled=True)
        return cls(
            traces=_exporter("TRACES", environment),
            metrics=_exporter("METRICS", environment),
            sentry_dsn=settings.sentry_dsn or environment.get("SENTRY_DSN") or None,
            content=settings.trace_content or _is_true(environment.get(_CONTENT)),
        )

    def __bool__(self) -> bool:
        return bool(self.traces or self.metrics or self.sentry_dsn)


def _exporter(signal: str, environment: Mapping[str, str]) -> str | None:
    """The name of the signal's exporter: as it is given, else `otlp` where an endpoint is."""
    named = environment.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    if named:
        return None if named == _NONE else named
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return "otlp" if any(environment.get(each) for each in endpoints) else None


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"
