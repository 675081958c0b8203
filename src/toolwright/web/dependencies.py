"""Dependencies that authenticate callers. Each route declares the dependency, and thereby the scope, that it needs."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from toolwright.core.errors import Forbidden, Unauthorized
from toolwright.web.answers import CALLER
from toolwright.web.auth.access import Caller, TokenIdentity, person, scope_of
from toolwright.web.requests.query import refuse_unknown
from toolwright.web.serving import Serving, serving_of

_KEY, _PUBLIC, _TOKEN = "x-secret-key", "x-public-key", "token"

SCHEMES: Mapping[str, Mapping[str, str]] = {
    "secretKey": {
        "type": "apiKey",
        "in": "header",
        "name": _KEY,
        "description": "A service's key. A server without configured keys accepts every caller on its own machine.",
    },
    "publicKey": {
        "type": "apiKey",
        "in": "header",
        "name": _PUBLIC,
        "description": "The key of an application that people use, sent with a person's token.",
    },
    "personToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A person's token: one of its claims is an entity's externalId.",
    },
    "streamToken": {
        "type": "apiKey",
        "in": "query",
        "name": _TOKEN,
        "description": "A token for one stream, from POST /api/stream-tokens.",
    },
}
"""Security schemes of the OpenAPI document."""


def _keys(request: Request) -> tuple[str | None, str | None]:
    """Return the secret and the public key of the request. Empty keys count as missing."""
    return request.headers.get(_KEY) or None, request.headers.get(_PUBLIC) or None


async def _caller(request: Request) -> Caller:
    caller = await identified(request, serving_of(request), *_keys(request))
    refuse_unknown(request)
    return caller


async def _service(request: Request) -> Caller:
    caller = await identified(request, serving_of(request), *_keys(request))
    if caller.kind != "service":
        raise Forbidden("Only a service may do this: it needs a secret key.")
    refuse_unknown(request)
    return caller


async def _follower(request: Request) -> Caller:
    key, public_key = _keys(request)
    token = request.query_params.get(_TOKEN) or None
    if token is None or key is not None or public_key is not None:
        caller = await identified(request, serving_of(request), key, public_key)
    else:
        caller = await _redeemed(request, serving_of(request), token)
    refuse_unknown(request, _TOKEN)
    return caller


async def _streaming_service(request: Request) -> Caller:
    caller = await _follower(request)
    if caller.kind != "service":
        raise Forbidden("Only a service may do this: it needs a secret key.")
    return caller


async def _redeemed(request: Request, serving: Serving, token: str) -> Caller:
    serving.access.check_local(request.headers, address_of(request))
    caller = await serving.tokens.redeem(token, serving.runtime.clients.use_once)
    if caller is None:
        raise Unauthorized(
            "The stream token is wrong, used or expired. Get a new one from POST /api/stream-tokens."
        )
    if caller.entity_id is not None:
        # deleted or renamed in the meantime
        caller = person(await serving.runtime.entities.get_human(caller.entity_id))
    return _let_in(request, caller)


async def identified(request: Request, serving: Serving, key: str | None, public_key: str | None) -> Caller:
    """Return the caller, identified by the secret key, a person's credentials, or the address."""
    authorization = request.headers.get("authorization")
    if key is not None or not serving.access.may_be_person(public_key, authorization):
        return _let_in(request, serving.access.service(key, request.headers, address_of(request)))
    identity = await serving.access.identify(public_key, authorization)
    return _let_in(request, await person_of(serving, identity))


def _let_in(request: Request, caller: Caller) -> Caller:
    """Record the caller for the access log and return it. Raises `Forbidden` if the route requires more rights."""
    request.scope[CALLER] = caller.label
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    caller.check_scope(scope_of(request.method, path))
    return caller


async def person_of(serving: Serving, identity: TokenIdentity) -> Caller:
    """Return the caller of a valid token. Raises `Forbidden`."""
    entity = await serving.runtime.entities.get_by_external_id(identity.external_id)
    return person(entity, identity.until, identity.claims)


def address_of(connection: HTTPConnection) -> str | None:
    """Return the source address of a connection."""
    return None if connection.client is None else connection.client.host


Service = Annotated[Caller, Depends(_service)]
"""A service, with all rights."""

AnyCaller = Annotated[Caller, Depends(_caller)]
"""A service or a person. `Serving.permits` decides what a person may do."""

StreamReader = Annotated[Caller, Depends(_follower)]
"""A service or a person, also with a stream token; for streams only."""

StreamingService = Annotated[Caller, Depends(_streaming_service)]
"""A service, also with a stream token that it created; for streams only."""

_SECRET: Mapping[str, list[str]] = {"secretKey": []}
_PERSON: Mapping[str, list[str]] = {"publicKey": [], "personToken": []}
_STREAM: Mapping[str, list[str]] = {"streamToken": []}
WAYS: Mapping[Callable[..., Any] | None, tuple[Mapping[str, list[str]], ...]] = {
    _service: (_SECRET,),
    _caller: (_SECRET, _PERSON),
    _follower: (_SECRET, _STREAM, _PERSON),
    _streaming_service: (_SECRET, _STREAM, _PERSON),
}
"""Credentials that each dependency accepts: alternatives, each a combination of schemes."""
