"""Sentry export: sends OpenTelemetry spans, and exceptions of handlers as events of the same trace."""

import re
from typing import TYPE_CHECKING, Any

import sentry_sdk
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.integrations.otlp import OTLPIntegration

from toolwright.adapters.telemetry.instruments import Failure
from toolwright.core.env.logs import without_secrets
from toolwright.core.errors import DefinitionError

if TYPE_CHECKING:
    from sentry_sdk.types import Breadcrumb, BreadcrumbHint, Event, Hint

PATIENCE = 2.0  # seconds to send buffered events when a runtime stops
_FRAME = re.compile(
    r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)\n(?P<code> {4}.*)?', re.M
)


def begin(dsn: str) -> None:
    """Start sending spans and errors to Sentry, unless the program has set up Sentry itself.

    Nothing else is sent: no local variables, no request bodies, no data of other libraries. The secrets of the thread
    being processed are redacted. Raises `DefinitionError` for an invalid DSN.
    """
    if sentry_sdk.is_initialized():
        return
    try:
        sentry_sdk.init(
            dsn=dsn,
            default_integrations=False,
            auto_enabling_integrations=False,
            integrations=[OTLPIntegration(setup_propagator=False), LoggingIntegration()],
            include_local_variables=False,
            max_request_body_size="never",
            before_send=_clean,
            before_breadcrumb=_clean_breadcrumb,
        )
    except ValueError:
        raise DefinitionError(
            "TOOLWRIGHT_SENTRY_DSN (or SENTRY_DSN) is not a DSN of Sentry, as in https://KEY@HOST/PROJECT."
        ) from None  # the library's error repeats parts of the DSN


def report(failure: Failure) -> None:
    """Report a handler's exception as an event of the current trace."""
    frames = [
        {
            "filename": frame["file"],
            "abs_path": frame["file"],
            "lineno": int(frame["line"]),
            "function": frame["function"],
            "context_line": (frame["code"] or "").strip(),
        }
        for frame in _FRAME.finditer(failure.stack)
    ]
    raised: dict[str, Any] = {  # Sentry's type
        "type": failure.type,
        "value": failure.message,
        "mechanism": {"type": "toolwright", "handled": True},
        "stacktrace": {"frames": frames},
    }
    sentry_sdk.capture_event({"level": "error", "exception": {"values": [raised]}})


def flush() -> None:
    """Send buffered events."""
    sentry_sdk.flush(PATIENCE)


def _clean(event: "Event", _: "Hint") -> "Event | None":
    return without_secrets(event)


def _clean_breadcrumb(breadcrumb: "Breadcrumb", _: "BreadcrumbHint") -> "Breadcrumb | None":
    return without_secrets(breadcrumb)
