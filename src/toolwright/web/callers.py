"""Dependencies that let a caller in; a route names the one it needs, and with it the scope."""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, APIKeyQuery

from toolwright.core.errors import Unauthorized
from toolwright.web.access import Caller
from toolwright.web.serving import Here

_KEY = APIKeyHeader(
    name="x-secret-key",
    scheme_name="secretKey",
    description="A service's key. A server without configured keys takes every caller on its own machine.",
    auto_error=False,
)
_TOKEN = APIKeyQuery(
    name="token",
    scheme_name="streamToken",
    description="A token for one stream, from POST /api/stream-tokens.",
    auto_error=False,
)


async def _service(request: Request, here: Here, key: Annotated[str | None, Security(_KEY)]) -> Caller:
    return here.access.service(key, request.headers, _peer(request))


async def _follower(
    request: Request,
    here: Here,
    key: Annotated[str | None, Security(_KEY)],
    token: Annotated[str | None, Security(_TOKEN)],
) -> Caller:
    if token is None or key is not None:
        return here.access.service(key, request.headers, _peer(request))
    here.access.check_local(request.headers, _peer(request))
    caller = here.tokens.redeem(token)
    if caller is None:
        raise Unauthorized(
            "The stream token is wrong, used or expired: ask POST /api/stream-tokens for another."
        )
    return caller


def _peer(request: Request) -> str | None:
    return None if request.client is None else request.client.host


Service = Annotated[Caller, Depends(_service)]
"""A service: all rights."""

Follower = Annotated[Caller, Depends(_follower)]
"""A service, also by a stream token: for streams only."""
