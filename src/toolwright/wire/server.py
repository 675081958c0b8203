"""The server itself on the wire: its health, and the tokens that open its streams (API §3)."""

from datetime import datetime
from typing import Literal

from toolwright.wire.shape import Absent, Shape


class Health(Shape, title="HealthShape"):
    """State of the server: whether it can work.

    `error` is the reason why it cannot. `warning` is set if no living process executes runs while requests are served.
    """

    status: Literal["ok", "unavailable"]
    version: str
    error: Absent[str] = None
    warning: Absent[str] = None


class StreamToken(Shape, title="StreamTokenShape"):
    """A token that opens one stream.

    It is given as `?token=`, until it expires.
    """

    token: str
    expires_at: datetime
