"""Authentication of requests: keys, tokens of people, one-time tokens and links (API §3)."""

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

from toolwright.core.errors import DefinitionError, Forbidden, Unauthorized
from toolwright.core.journal.store import CallVisibility
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.core.spaces import Entity
from toolwright.core.threads.decision import Decider, Door
from toolwright.core.tools.http.addresses import is_loopback
from toolwright.wire.message import FOR_PEOPLE, FOR_SERVICES, Presentation

PROXY_HEADERS = (
    "forwarded",
    "via",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-server",
)
"""Headers by which proxies report the original request. Clients do not send them."""
CLOSED = "This server has no keys, so it serves callers on this machine only."
Scope: TypeAlias = Literal["metrics", "read", "all"]
"""The scope of a service's key. Each scope includes the previous ones."""
SCOPES: tuple[Scope, ...] = ("metrics", "read", "all")
_MAY: Mapping[Scope, str] = {"metrics": "read the metrics", "read": "read", "all": "do everything"}
READING = ("GET", "HEAD", "OPTIONS")
_ROUTES: Mapping[str, Scope] = {
    "/metrics": "metrics",
    "/api/stream-tokens": "read",
    "/mcp": "all",
    "/mcp/": "all",
}
"""Routes whose scope does not follow from their method. A stream token can only open streams."""
NO_ENTITY = "There is no entity for your token. A service must create one first."
MAX_TOKEN = 4_096  # characters of a token


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIdentity:
    """The person named by a valid token: external id, roles, and expiry in seconds since 1970 (None: no expiry)."""

    external_id: str
    until: float | None = None
    roles: tuple[str, ...] = ()
    claims: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False)


class TokenVerifier(Protocol):
    """Verifies access tokens. Results are not cached; each request is verified."""

    async def __call__(self, token: str) -> TokenIdentity:
        """Return the person named by the token. Raises `Unauthorized` or `KeysUnavailable`."""
        ...


def has_claim(claims: Mapping[str, JSON], expected: str) -> bool:
    """Return whether the claims contain the required claim, given as `name` or `name=value`.

    `name` alone matches any value other than null, false, and empty text, lists and objects. `name=value` matches that
    text, the number or boolean with that JSON form, and a list that contains one of these. A claim within an object is
    named by its path, `realm.roles`, unless there is a claim with the whole path as its name.
    """
    name, equals, value = expected.partition("=")
    claim = claims[name] if name in claims else _at_path(claims, name)
    if not equals:
        return claim is not None and claim is not False and claim != "" and claim != [] and claim != {}
    each = claim if isinstance(claim, list) else [claim]
    return any(_text(one) == value for one in each)


def _at_path(claims: Mapping[str, JSON], path: str) -> JSON:
    value: JSON = dict(claims)
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _text(claim: JSON) -> str | None:
    if isinstance(claim, str):
        return claim
    return json.dumps(claim) if isinstance(claim, bool | int | float) else None


def roles_of(claims: Mapping[str, JSON], name: str) -> tuple[str, ...]:
    """Return the roles in the claim with that name or path: its text, or the texts in its list."""
    claim = claims[name] if name in claims else _at_path(claims, name)
    each = claim if isinstance(claim, list) else [claim]
    return tuple([one for one in each if isinstance(one, str)])


_ENTRY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})\(([^()=]*)\)=(.*)", re.DOTALL)

_NO_KEY = re.compile(r"[()\s]|=(?!=*$)")
"""Signs that an entry was meant to have a name. Read as a key, the whole entry would have all rights."""


def scope_of(method: str, path: str) -> Scope:
    """Return the scope that a key needs for the route: `read` for routes that only read, `all` for others."""
    by_method: Scope = "read" if method in READING else "all"
    return _ROUTES.get(path, by_method)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    """A service's key, its scope, and its name for the access log."""

    key: str = field(repr=False)
    name: str | None = None
    scope: Scope = "all"

    @classmethod
    def read(cls, entry: str) -> "ServiceKey":
        """Parse an entry of the secret keys: a key, or `name(scope)=key`. Raises `ValueError`."""
        match = _ENTRY.fullmatch(entry)
        if match is None:
            if _NO_KEY.search(entry):
                raise ValueError(
                    "a secret key must not contain parentheses or blanks, and '=' only at its end; write a key with a "
                    "name as name(scope)=key"
                )
            return cls(key=entry)
        name, scope_name, key = match.groups()
        scope: Scope | None = next((each for each in SCOPES if each == scope_name.strip()), None)
        if scope is None:
            raise ValueError(
                f"the scope of the key {name!r} must be {', '.join(SCOPES[:-1])} or {SCOPES[-1]}, not {scope_name!r}"
            )
        return cls(key=key.strip(), name=name, scope=scope)

    @property
    def caller(self) -> "Caller":
        """The service as a caller."""
        return Caller(kind="service", name=self.name, scope=self.scope, key=self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request.

    A service has the rights of its key, a person is an entity with access to their own data.
    """

    kind: Literal["service", "person"]
    entity_id: str | None = None
    external_id: str | None = None
    until: float | None = None
    claims: Mapping[str, JSON] = field(default_factory=dict[str, JSON], repr=False, hash=False)
    name: str | None = None
    scope: Scope = "all"
    key: str | None = field(default=None, repr=False)
    roles: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The caller as shown in the log: the kind, with the key's name or the person's id."""
        name = self.name if self.kind == "service" else self.entity_id
        return self.kind if name is None else f"{self.kind}:{name}"

    def check_scope(self, needed: Scope) -> None:
        """Raise `Forbidden` if the key does not have the scope."""
        if SCOPES.index(self.scope) < SCOPES.index(needed):
            raise Forbidden(
                f"The key {self.name!r} may only {_MAY[self.scope]}: this needs a key with the scope {needed!r}."
            )

    def through(self, door: Door) -> Decider:
        """Return the caller as one who decides through that door."""
        if self.kind == "service":
            return Decider(kind="service", door=door, id=self.name, name=self.name)
        return Decider(kind="person", door=door, id=self.entity_id, name=self.name or self.external_id)

    @property
    def user_ids(self) -> tuple[str, ...]:
        """Values of `userId` of the caller's threads. Empty for a service."""
        return tuple(one for one in (self.entity_id, self.external_id) if one is not None)

    @property
    def users(self) -> tuple[str, ...] | None:
        """Owners whose data the caller may see, or None for a service, which may see all."""
        return None if self.kind == "service" else self.user_ids

    @property
    def presentation(self) -> Presentation:
        """Presentation of messages and events for the caller."""
        return FOR_SERVICES if self.kind == "service" else FOR_PEOPLE

    @property
    def sight(self) -> CallVisibility | None:
        """Visibility of calls, or None for a service, which sees all."""
        return (
            None if self.entity_id is None else CallVisibility(users=self.user_ids, entity_id=self.entity_id)
        )


SERVICE = Caller(kind="service")


def person(
    entity: Entity | None,
    until: float | None = None,
    claims: Mapping[str, JSON] | None = None,
    roles: tuple[str, ...] = (),
) -> Caller:
    """Return a caller for the person. Raises `Forbidden`."""
    if entity is None:
        raise Forbidden(NO_ENTITY)
    return Caller(
        kind="person",
        entity_id=entity.id,
        external_id=entity.external_id,
        name=entity.display_name,
        until=until,
        claims=dict(claims or {}),
        roles=roles,
    )


class Access:
    """Validates callers by the configured keys, or by their address if there are no keys."""

    def __init__(
        self,
        secret_keys: tuple[str, ...],
        cors_origins: tuple[str, ...],
        public_keys: tuple[str, ...] = (),
        verify_token: TokenVerifier | None = None,
        *,
        insecure: bool = False,
    ) -> None:
        if public_keys and verify_token is None:
            raise DefinitionError("Public keys require a way to verify people's tokens.")
        self.services = [ServiceKey.read(entry) for entry in secret_keys]
        self._secret = _Keys(tuple(each.key for each in self.services))
        self._public = _Keys(public_keys)
        self._verify = verify_token
        self.keyed = bool(secret_keys or public_keys)
        self._insecure = insecure
        self._origins = frozenset(cors_origins)

    def service(self, key: str | None, headers: Mapping[str, str], peer: str | None) -> Caller:
        """Return the caller as a service. Raises `Unauthorized` or `Forbidden`."""
        if self.keyed:
            return self._with_key(key)
        self.check_local(headers, peer)
        return SERVICE

    def may_be_person(self, public_key: str | None, authorization: str | None) -> bool:
        """Return whether the request has a person's credentials, if this server accepts people."""
        return self.takes_people and (public_key is not None or authorization is not None)

    @property
    def takes_people(self) -> bool:
        """Return whether this server accepts people, who send a public key and a token."""
        return self._verify is not None

    async def identify(self, public_key: str | None, authorization: str | None) -> TokenIdentity:
        """Return the calling person. Raises `Unauthorized` or `KeysUnavailable`."""
        if public_key is None or self._verify is None:
            raise Unauthorized("A person needs a public key: send it as the header x-public-key.")
        if self._public.find(public_key) is None:
            raise Unauthorized("The public key is wrong.")
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("A person needs a token: send the header Authorization: Bearer TOKEN.")
        return await self._verify(token.strip())

    def check_local(self, headers: Mapping[str, str], peer: str | None) -> None:
        """Reject a caller or page from another machine if there are no keys. Prevents DNS rebinding.

        A request with a header that proxies add is rejected, because its caller can be on any machine. A server that is
        `insecure` accepts every caller, and rejects only pages of other sites.
        """
        if self.keyed:
            return
        host = headers.get("host", "")
        if self._insecure:
            self._check_own_page(headers.get("origin"), _host_name(host))
            return
        if peer is None or not is_loopback(peer):
            raise Forbidden(CLOSED)
        proxied = next((each for each in PROXY_HEADERS if each in headers), None)
        if proxied is not None:
            raise Forbidden(
                f"The request came through a proxy (header {proxied!r}), and this server has no keys, without which it "
                "serves callers on this machine only: set TOOLWRIGHT_SECRET_KEYS."
            )
        if not is_loopback(_host_name(host)):
            raise Forbidden(
                f"The host {host!r} is not this machine. Call it as localhost, or configure keys."
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and not is_loopback(_origin_name(origin)):
            raise Forbidden(f"The origin {origin!r} may not call this server: add it to the CORS origins.")

    def check_page(self, headers: Mapping[str, str], server: str | None) -> None:
        """Reject a request of a foreign page to a server with keys, which MCP requires against DNS rebinding.

        `server` is the address at which the request arrived. At a loopback address the host must be a loopback host or
        the host of one of the CORS origins.
        """
        if not self.keyed or "*" in self._origins:
            return
        sent = headers.get("host", "")
        host = _host_name(sent)
        is_allowed = is_loopback(host) or host in map(_origin_name, self._origins)
        if server is not None and is_loopback(server) and not is_allowed:
            raise Forbidden(
                f"The host {sent!r} is not this machine: add its origin, such as https://{host or 'example.org'}, "
                "to the CORS origins."
            )
        self._check_own_page(headers.get("origin"), host)

    def _check_own_page(self, origin: str | None, host: str) -> None:
        if origin is not None and origin not in self._origins and not _same_host(_origin_name(origin), host):
            raise Forbidden(f"The origin {origin!r} may not call this server: add it to the CORS origins.")

    def _with_key(self, key: str | None) -> Caller:
        if key is None:
            raise Unauthorized
        index = self._secret.find(key)
        if index is None:
            raise Unauthorized("The secret key is wrong.")
        return self.services[index].caller


class _Keys:
    """Keys compared in constant time."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = [key.encode("utf-8", "surrogateescape") for key in keys]

    def find(self, key: str) -> int | None:
        """Return the index of the key, or None if it is not in the list."""
        sent = key.encode("latin-1", "replace")  # headers are read as latin-1: these are the bytes sent
        same = [
            hmac.compare_digest(sent, each) for each in self._keys
        ]  # compares with all keys, without early exit
        return same.index(True) if any(same) else None


def _same_host(one: str, other: str) -> bool:
    return one != "" and (one == other or (is_loopback(one) and is_loopback(other)))


def _host_name(host: str) -> str:
    return _origin_name(f"//{host}")


def _origin_name(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


STREAM_LIFE = timedelta(seconds=60)
# for which a used token is remembered longer, because clocks of processes differ
MARGIN = timedelta(minutes=10)

UseOnce: TypeAlias = Callable[[str, datetime], Awaitable[bool]]
"""Marks a key as used until that time. Returns whether it was unused before."""


SigningKeys: TypeAlias = Callable[[str], Awaitable[Sequence[bytes]]]
"""Returns the keys that sign texts for a purpose: the first signs, all verify."""


class Signer:
    """Signs bytes for one purpose."""

    def __init__(self, keys: SigningKeys, purpose: str) -> None:
        self._keys, self._purpose = keys, purpose

    async def seal(self, content: bytes) -> str:
        """Return the content with its signature, as text for a cookie or a query."""
        body = base64.urlsafe_b64encode(content)
        return f"{body.decode()}.{(await self.marks(body))[0]}"

    async def open(self, sealed: str) -> bytes | None:
        """Return the content of a text that was signed with one of the keys, or None for any other text."""
        body, _, signature = sealed.partition(".")
        marks = await self.marks(body.encode("utf-8", "replace"))
        if not _is_one_of(signature, marks):
            return None
        return base64.urlsafe_b64decode(body)

    async def marks(self, content: bytes) -> Sequence[str]:
        """Return what each of the keys makes of the content."""
        keys = await self._keys(self._purpose)
        return [hmac.new(key, content, hashlib.sha256).hexdigest() for key in keys]


def _is_one_of(sent: str, marks: Iterable[str]) -> bool:
    """Compare with all of them, in constant time."""
    text = sent.encode("utf-8", "replace")
    same = [hmac.compare_digest(text, each.encode()) for each in marks]
    return any(same)


class SignedCallers:
    """Signed texts that name a caller for one purpose.

    A service is named by a mark of its key, which tells nothing about the key, so that its rights are those of the key
    when the text is read. A person is named by their entity; whether it still exists is checked by the reader.
    """

    def __init__(self, access: Access, keys: SigningKeys, purpose: str) -> None:
        self._access = access
        self._signature = Signer(keys, purpose)

    async def seal(self, caller: Caller, content: JSONObject) -> str:
        """Return the signed text."""
        mark = None if caller.key is None else (await self._mark_of(caller.key))[0]
        named: JSONObject = {
            "entity": caller.entity_id,
            "external": caller.external_id,
            "key": mark,
            **content,
        }
        return await self._signature.seal(json.dumps(named, ensure_ascii=False).encode())

    async def open(self, sealed: str) -> tuple[Caller, dict[str, Any]] | None:
        """Return the caller and the content. None if another key has signed the text, or the service's key is gone."""
        written = await self._signature.open(sealed)
        if written is None:
            return None
        content: dict[str, Any] = json.loads(written)  # as serialized by `seal`
        if content["entity"] is not None:
            return Caller(
                kind="person", entity_id=content["entity"], external_id=content["external"]
            ), content
        service = await self._service(content["key"])
        return None if service is None else (service, content)

    async def _service(self, mark: str | None) -> Caller | None:
        if mark is None:
            return None if self._access.keyed else SERVICE
        for service in self._access.services:
            if _is_one_of(mark, await self._mark_of(service.key)):
                return service.caller
        return None

    async def _mark_of(self, key: str) -> Sequence[str]:
        return await self._signature.marks(b"key " + key.encode("utf-8", "surrogateescape"))


class OneTimeTokens:
    """One-time tokens with a lifetime. A token names its caller. The journal stores used tokens."""

    def __init__(self, clock: Clock, callers: SignedCallers, life: timedelta) -> None:
        self._clock, self._life = clock, life
        self._callers = callers

    async def issue(self, caller: Caller) -> tuple[str, datetime]:
        """Return a new token that acts for `caller`, and its expiry."""
        expires_at = self._clock.now() + self._life
        content: JSONObject = {"id": secrets.token_urlsafe(12), "until": expires_at.timestamp()}
        return await self._callers.seal(caller, content), expires_at

    async def redeem(self, token: str, use_once: UseOnce) -> Caller | None:
        """Return the caller that the token acts for and mark it as used.

        None if the token is unknown, used or expired, or the service's key was removed.
        """
        opened = await self._callers.open(token[:MAX_TOKEN])
        if opened is None:
            return None
        caller, content = opened
        now = self._clock.now()
        until = now + self._life + MARGIN
        if content["until"] <= now.timestamp() or not await use_once(f"token:{content['id']}", until):
            return None
        return caller
