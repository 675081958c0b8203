"""Services shared by the routes of one gateway, and the dependencies that provide them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from toolwright.core.errors import StoreError
from toolwright.runtime.runtime import Runtime
from toolwright.web.answers import Frames, Names
from toolwright.web.auth.access import Access, OneTimeTokens
from toolwright.web.auth.permits import Permits
from toolwright.web.options import GatewayOptions, GatewayPart


@dataclass(slots=True, kw_only=True)
class Serving:
    """The parts of one gateway.

    `opened` is its runtime while it is running. `mcp` serves MCP hosts, and `console` serves browsers."""

    options: GatewayOptions
    access: Access
    tokens: OneTimeTokens
    frames: Mapping[Names, Frames] = field(init=False)
    opened: Runtime | None = None
    mcp: GatewayPart | None = None
    console: GatewayPart | None = None

    def __post_init__(self) -> None:
        self.frames = {"s3": Frames("s3"), "s4": Frames("s4")}

    @property
    def runtime(self) -> Runtime:
        """The runtime. Raises `StoreError` if it is unavailable."""
        if self.opened is None:
            raise StoreError("The server is starting or stopping: its journal is not open.")
        return self.opened

    @property
    def permits(self) -> Permits:
        """Permission checks for callers on the runtime."""
        return Permits(self.runtime)


def serving_of(request: Request) -> Serving:
    """Return the parts of the gateway that serves the request."""
    serving: Serving = request.app.state.serving  # set only by `create_gateway`
    return serving


async def _gateway_parts(request: Request) -> Serving:
    return serving_of(request)


async def _runtime(request: Request) -> Runtime:
    return serving_of(request).runtime


ServingDep = Annotated[Serving, Depends(_gateway_parts)]
"""The parts of the gateway."""

AtWork = Annotated[Runtime, Depends(_runtime)]
"""The runtime of the gateway."""
