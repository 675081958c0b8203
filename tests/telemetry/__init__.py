"""Telemetry: spans, trace contexts, metrics, logs, Sentry."""
