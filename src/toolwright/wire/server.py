"""Health and stream tokens of the server on the wire (API §3)."""

from datetime import datetime
from typing import Literal

from toolwright.wire.rendering import Absent
from toolwright.wire.shape import Shape


class Health(Shape, title="HealthShape"):
    """Health of the server.

    `error` is the reason for `unavailable`. `warning` is set if requests are served, but no process executes runs.
    """

    status: Literal["ok", "unavailable"]
    version: str
    error: Absent[str] = None
    warning: Absent[str] = None


class StreamToken(Shape, title="StreamTokenShape"):
    """A token that opens one stream, as `?token=`, until it expires."""

    token: str
    expires_at: datetime
