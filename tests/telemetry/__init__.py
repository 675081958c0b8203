"""Telemetry: spans, trace contexts, figures, logs, Sentry."""
