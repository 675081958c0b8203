"""What a gateway is told."""

import asyncio
from dataclasses import dataclass, field
from importlib.metadata import version

from toolwright.core.ports import Clock

MAX_BODY = 10 * 1024 * 1024  # bytes (D20)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Settings of one gateway.

    Without `secret_keys` every caller on this machine is a service. `cors_origins` are origins such as
    `https://example.org` whose pages may call. `max_body` is in bytes, `keep_alive` the seconds between two
    comments on a stream. Once `closing` is set, open streams end: the server is about to stop.
    """

    clock: Clock
    secret_keys: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    max_body: int = MAX_BODY
    keep_alive: float = 15.0
    version: str = field(default_factory=lambda: version("toolwright"))
    closing: asyncio.Event = field(default_factory=asyncio.Event)
