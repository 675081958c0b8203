"""Dependencies of routes: the services of their gateway, and callers authenticated for a scope."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import HTTPConnection

from toolwright.core.errors import Forbidden, StoreError, TooManyRequests, Unauthorized
from toolwright.core.text import quantity
from toolwright.runtime.runtime import Runtime
from toolwright.web.answers import Frames, Names
from toolwright.web.auth.access import (
    READING,
    STREAM_LIFE,
    Access,
    Caller,
    OneTimeTokens,
    SignedCallers,
    TokenIdentity,
    person,
    scope_of,
)
from toolwright.web.auth.permits import Permits
from toolwright.web.options import GatewayOptions, GatewayPart
from toolwright.web.requests import refuse_unknown
from toolwright.web.shares import CALLER, Rates, Turns

MAX_CHANGES = (300, 20.0)
"""Requests of one person that can change something: at once, and per second after that."""
MAX_FAILED_SIGN_INS = (10, 1 / 6)
"""Failed sign-ins from one address: at once, and per second after that."""
_KEY, _PUBLIC, _TOKEN = "x-secret-key", "x-public-key", "token"
_SECRET: Mapping[str, list[str]] = {"secretKey": []}
_PERSON: Mapping[str, list[str]] = {"publicKey": [], "personToken": []}
_STREAM: Mapping[str, list[str]] = {"streamToken": []}


@dataclass(slots=True, kw_only=True)
class Serving:
    """The parts of one gateway.

    `opened` is its runtime while it is running. `mcp` serves MCP hosts, and `console` serves browsers.
    Large bodies are parsed, and streams read and write pages of events, in their callers' turns.
    """

    options: GatewayOptions
    access: Access
    tokens: OneTimeTokens = field(init=False)
    frames: Mapping[Names, Frames] = field(init=False)
    parsing: Turns = field(default_factory=Turns)
    changes: Rates = field(init=False)
    failed_sign_ins: Rates = field(init=False)
    reading: Turns = field(default_factory=lambda: Turns(4))
    writing: Turns = field(default_factory=Turns)
    opened: Runtime | None = None
    mcp: GatewayPart | None = None
    console: GatewayPart | None = None

    def __post_init__(self) -> None:
        self.frames = {"s3": Frames("s3"), "s4": Frames("s4")}
        self.changes = Rates(*MAX_CHANGES, self._time)
        self.failed_sign_ins = Rates(*MAX_FAILED_SIGN_INS, self._time)
        self.tokens = OneTimeTokens(self.options.clock, self.signed_callers("stream token"), STREAM_LIFE)

    def count_change(self, caller: Caller) -> None:
        """Count a request or an action of a person that can change something. Raises `TooManyRequests`."""
        if caller.kind != "person":
            return
        seconds = self.changes.seconds_until_free(caller.label)
        if seconds:
            raise TooManyRequests(
                f"You have sent too many requests. Try again in {quantity(seconds, 'second')}.", seconds
            )
        self.changes.use(caller.label)

    def _time(self) -> float:
        return self.options.clock.now().timestamp()

    async def signing_keys(self, purpose: str) -> Sequence[bytes]:
        """Return the keys that sign texts for a purpose: the first signs, all verify."""
        return await self.runtime.keys.signing(purpose)

    def signed_callers(self, purpose: str) -> SignedCallers:
        """Return the texts that name a caller for one purpose."""
        return SignedCallers(self.access, self.signing_keys, purpose)

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


class AnyText(StringConvertor):
    """Path converter for the rest of a path, including slashes sent as `%2F` and line breaks."""

    regex = r"[\s\S]*"

    def to_string(self, value: str) -> str:
        """Return the value unchanged."""
        return value


register_url_convertor("text", AnyText())


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


def bearer_key(request: Request) -> str | None:
    """Return the secret key that the request sends as a bearer token, or None if it sends other credentials."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" and _keys(request) == (None, None) else None


async def _scraper(request: Request) -> Caller:
    key, public_key = _keys(request)
    caller = await identified(request, serving_of(request), key or bearer_key(request), public_key)
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
    if request.method not in READING:
        serving_of(request).count_change(caller)
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    caller.check_scope(scope_of(request.method, path))
    return caller


async def person_of(serving: Serving, identity: TokenIdentity) -> Caller:
    """Return the caller of a valid token. Raises `Forbidden`."""
    entity = await serving.runtime.entities.get_by_external_id(identity.external_id)
    return person(entity, identity.until, identity.claims, identity.roles)


def address_of(connection: HTTPConnection) -> str | None:
    """Return the source address of a connection."""
    return None if connection.client is None else connection.client.host


Service = Annotated[Caller, Depends(_service)]
"""A service, with all rights."""

Scraper = Annotated[Caller, Depends(_scraper)]
"""A service, which can also send its key as a bearer token, as all versions of Prometheus can."""

AnyCaller = Annotated[Caller, Depends(_caller)]
"""A service or a person. `Serving.permits` decides what a person may do."""

StreamReader = Annotated[Caller, Depends(_follower)]
"""A service or a person, also with a stream token; for streams only."""

StreamingService = Annotated[Caller, Depends(_streaming_service)]
"""A service, also with a stream token that it created; for streams only."""

WAYS: Mapping[Callable[..., Any] | None, tuple[Mapping[str, list[str]], ...]] = {
    _service: (_SECRET,),
    _scraper: (_SECRET,),
    _caller: (_SECRET, _PERSON),
    _follower: (_SECRET, _STREAM, _PERSON),
    _streaming_service: (_SECRET, _STREAM, _PERSON),
}
"""Credentials that each dependency accepts: alternatives, each a combination of schemes."""
