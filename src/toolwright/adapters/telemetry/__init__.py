"""Telemetry by OpenTelemetry: spans, metrics, trace contexts; it needs the extra `telemetry`."""
