"""Options of a gateway."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, Protocol, TypeAlias

from fastapi.telemetry import TelemetryConfig
from starlette.types import Receive, Scope, Send

from toolwright.core.errors import DISTRIBUTION
from toolwright.core.limits import MAX_JSON_VALUES, MAX_NESTING
from toolwright.core.ports import Clock
from toolwright.web.auth.access import TokenVerifier

MAX_BODY = 10 * 1024 * 1024  # bytes (D20)
# bytes: an attachment of 25 MiB in base64, and the rest of its message
MAX_BODY_WITH_FILES = 36 * 1024 * 1024
NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own spans are disabled, because they include queries with stream tokens. Runs have separate spans."""


class GatewayPart(Protocol):
    """An ASGI application at a path of the gateway, `/mcp` or `/console`, that must be closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    async def aclose(self) -> None: ...


OpenPart: TypeAlias = Callable[[Any], GatewayPart]
"""Creates the part, given the gateway's `Serving`."""


@cache
def _version() -> str:
    """Return the installed version, which is read from files once per process."""
    return version(DISTRIBUTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Settings of one gateway.

    Without any keys every caller on this machine is a service; with `insecure` every caller on any machine. People
    send one of the `public_keys` and a token that `verify_token` validates. `cors_origins` are origins such as
    `https://example.org` whose pages may send requests. `max_body` is in bytes; None means 10 MiB, and 36 MiB for
    attachments or an agent. `body_grace` is the number of seconds after which a body must arrive at the minimum
    rate. `keep_alive` is the number of seconds between two comments on a stream. `scripts` are the scripted models
    that a configuration over HTTP may name (`scripted:PATH`, a file that the server reads), or None for any. `docs`
    shows the OpenAPI document and its page to every authenticated caller, `open` to everyone. `mcp` creates the
    endpoint that offers the app's tools to MCP hosts, or is None. `console` creates the console. `node_url` is the
    URL at which other processes of the cluster reach this process. When `closing` is set, open streams end because
    the server is about to stop.
    """

    clock: Clock
    secret_keys: tuple[str, ...] = ()
    public_keys: tuple[str, ...] = ()
    verify_token: TokenVerifier | None = None
    cors_origins: tuple[str, ...] = ()
    insecure: bool = False
    max_body: int | None = None
    max_nesting: int = MAX_NESTING
    max_json_values: int = MAX_JSON_VALUES
    body_grace: float = 30.0
    keep_alive: float = 15.0
    scripts: frozenset[str] | None = None
    docs: bool | Literal["open"] = True
    mcp: OpenPart | None = None
    console: OpenPart | None = None
    node_url: str | None = None
    version: str = field(default_factory=_version)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
