"""Dependencies that let a caller in; a route names the one it needs, and with it the scope.

Once the caller is let in, its query may only have parameters that the route knows.
"""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from starlette.requests import HTTPConnection

from toolwright.core.errors import Forbidden, Unauthorized
from toolwright.web.answers.unread import CALLER
from toolwright.web.auth.access import Caller, person, scope_of
from toolwright.web.auth.verifier import Named
from toolwright.web.requests.query import refuse_unknown
from toolwright.web.serving import Here, Serving

_KEY = APIKeyHeader(
    name="x-secret-key",
    scheme_name="secretKey",
    description="A service's key. A server without configured keys takes every caller on its own machine.",
    auto_error=False,
)
_PUBLIC = APIKeyHeader(
    name="x-public-key",
    scheme_name="publicKey",
    description="The key of an application that people use; it comes with a person's token.",
    auto_error=False,
)
_BEARER = HTTPBearer(
    scheme_name="personToken",
    bearerFormat="JWT",
    description="A person's token: one of its claims is an entity's externalId.",
    auto_error=False,
)
_TOKEN = APIKeyQuery(
    name="token",
    scheme_name="streamToken",
    description="A token for one stream, from POST /api/stream-tokens.",
    auto_error=False,
)


Key = Annotated[str | None, Security(_KEY)]
PublicKey = Annotated[str | None, Security(_PUBLIC)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]  # for the document: read below


async def _caller(request: Request, serving: Here, key: Key, public_key: PublicKey, _: Bearer) -> Caller:
    caller = await identified(request, serving, key, public_key)
    refuse_unknown(request)
    return caller


async def _service(request: Request, serving: Here, key: Key) -> Caller:
    caller = await identified(request, serving, key, request.headers.get("x-public-key"))
    if caller.kind != "service":
        raise Forbidden("Only a service may do this: it needs a secret key.")
    refuse_unknown(request)
    return caller


async def _follower(
    request: Request,
    serving: Here,
    key: Key,
    public_key: PublicKey,
    _: Bearer,
    token: Annotated[str | None, Security(_TOKEN)],
) -> Caller:
    if token is None or key is not None or public_key is not None:
        caller = await identified(request, serving, key, public_key)
    else:
        caller = await _redeemed(request, serving, token)
    refuse_unknown(request, _TOKEN.model.name)
    return caller


async def _redeemed(request: Request, serving: Serving, token: str) -> Caller:
    serving.access.check_local(request.headers, address_of(request))
    caller = await serving.tokens.redeem(token, serving.runtime.clients.use_once)
    if caller is None:
        raise Unauthorized(
            "The stream token is wrong, used or expired: ask POST /api/stream-tokens for another."
        )
    if caller.entity_id is not None:
        caller = person(
            await serving.runtime.entities.human(caller.entity_id)
        )  # deleted meanwhile, or renamed
    return _let_in(request, caller)


async def _following_service(caller: Annotated[Caller, Depends(_follower)]) -> Caller:
    if caller.kind != "service":
        raise Forbidden("Only a service may do this: it needs a secret key.")
    return caller


async def identified(request: Request, serving: Serving, key: str | None, public_key: str | None) -> Caller:
    """Return the caller: by the secret key, or by what is sent for a person, or by the address.

    Raises `Unauthorized` for an unknown caller, `Forbidden` for a key without the route's scope.
    """
    authorization = request.headers.get("authorization")
    if key is not None or not serving.access.may_be_person(public_key, authorization):
        return _let_in(request, serving.access.service(key, request.headers, address_of(request)))
    named = await serving.access.named(public_key, authorization)
    return _let_in(request, await person_of(serving, named))


def _let_in(request: Request, caller: Caller) -> Caller:
    """Return the caller, who is known from now on to the access log. Raises `Forbidden` if the route needs more."""
    request.scope[CALLER] = caller.label
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    caller.check_scope(scope_of(request.method, path))
    return caller


async def person_of(serving: Serving, named: Named) -> Caller:
    """The caller whom a good token names, else `Forbidden`."""
    entity = await serving.runtime.entities.named(named.external_id)
    return person(entity, named.until, named.claims)


def address_of(connection: HTTPConnection) -> str | None:
    """The address that a connection comes from."""
    return None if connection.client is None else connection.client.host


Service = Annotated[Caller, Depends(_service)]
"""A service: all rights."""

Known = Annotated[Caller, Depends(_caller)]
"""A service, or a person: what a person may do is for `Serving.permits` to say."""

Follower = Annotated[Caller, Depends(_follower)]
"""A known caller, also by a stream token: for streams only."""

FollowingService = Annotated[Caller, Depends(_following_service)]
"""A service, also by a stream token that it made: for streams only."""
