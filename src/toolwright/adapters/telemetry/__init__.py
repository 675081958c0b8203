"""Telemetry with OpenTelemetry: spans, metrics, trace contexts. Needs the extra `telemetry`."""
