"""Access tokens of people: JWT rules (RFC 7519, RFC 8725), with a shared secret or an identity provider's keys."""

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, cast

import httpx2
from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWS, PyJWTError
from jwt.algorithms import AllowedPublicKeys

from toolwright.core.errors import KeysUnavailable, Unauthorized
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.core.text import sentence
from toolwright.web.auth.access import TokenIdentity, roles_of

MAX_TOKEN = 16 * 1024  # characters of a token
CLOCK_SKEW = 5.0  # seconds by which the issuer's clock may be ahead; there is no leeway for `exp`

_JWS = PyJWS(options={"enforce_minimum_key_length": True})
_WRONG = "The token is not valid."
log = logging.getLogger("toolwright.web")
_PARTS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}  # public keys only
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}
LIFE = 600.0  # seconds after which keys are fetched again, so that a withdrawn key is removed
PAUSE = 10.0  # minimum seconds between two fetches, regardless of the key ids sent by callers
FIRST_PAUSE = 1.0  # the same until the first keys were fetched
OK = 200
PATIENCE = 5.0  # seconds for one fetch
SHARED = "HS256"
MAX_KEY_SET = 256 * 1024  # bytes of a key set


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The unverified header of a token."""

    algorithm: str
    kid: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedClaims:
    """The claims of a token. `claim` identifies the person, `roles` lists their roles.

    Audience and issuer are checked only if set.
    """

    claim: str
    roles: str = "roles"
    audience: str | None = None
    issuer: str | None = None


def header_of(token: str) -> Header:
    """Return the token's header.

    Raises `Unauthorized` for an invalid token, or a token with unknown extensions (`crit`).
    """
    if len(token) > MAX_TOKEN:
        raise Unauthorized("The token is too long.")
    try:
        header: dict[str, Any] = _JWS.get_unverified_header(token)  # any JSON object, untrusted
    except (PyJWTError, ValueError) as error:
        raise Unauthorized(_WRONG) from error
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or "crit" in header or "b64" in header:
        raise Unauthorized(_WRONG)
    return Header(algorithm=algorithm, kid=kid)


def claims_of(token: str, key: AllowedPublicKeys | bytes, algorithm: str) -> JSONObject:
    """Return the claims if they were signed with the key and algorithm. Raises `Unauthorized`."""
    try:
        payload: bytes = _JWS.decode(token, key, algorithms=[algorithm])
        claims: JSON = json.loads(payload)
    except (PyJWTError, ValueError, RecursionError) as error:
        raise Unauthorized(_WRONG) from error
    if not isinstance(claims, dict):
        raise Unauthorized(_WRONG)
    return claims


def identity_of(claims: JSONObject, expected: ExpectedClaims, now: datetime) -> TokenIdentity:
    """Return the person of a currently valid token. Raises `Unauthorized`. `exp` and `nbf` can be missing."""
    at = now.timestamp()
    expires, begins = _instant(claims, "exp"), _instant(claims, "nbf")
    if expires is not None and expires <= at:
        raise Unauthorized("The token has expired.")
    if begins is not None and begins > at + CLOCK_SKEW:
        raise Unauthorized("The token is not valid yet.")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise Unauthorized("The token is not from the accepted issuer.")
    if expected.audience is not None and expected.audience not in _audience(claims):
        raise Unauthorized("The token is not meant for this server: its audience is missing or different.")
    name = claims.get(expected.claim)
    if not isinstance(name, str) or not name:
        raise Unauthorized(f"The claim {expected.claim!r} of the token is missing or not text.")
    roles = roles_of(claims, expected.roles)
    return TokenIdentity(external_id=name, until=expires, claims=claims, roles=roles)


def _audience(claims: JSONObject) -> list[JSON]:
    """Return the audiences of a token, which has a single one or a list (RFC 7519 §4.1.3)."""
    meant = claims.get("aud")
    return meant if isinstance(meant, list) else [meant]


def _instant(claims: JSONObject, name: str) -> float | None:
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            instant = float(value)
            if math.isfinite(instant):
                return instant
    raise Unauthorized(f"The token's {name!r} is not a number.")


_ALGORITHMS = PyJWS()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A public key and its allowed algorithms."""

    kid: str | None
    algorithms: frozenset[str]
    key: AllowedPublicKeys


def read_keys(text: bytes) -> Sequence[PublicKey]:
    """Return the keys of a set that can verify signatures. Other keys and invalid sets are ignored."""
    try:
        document: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = document.get("keys") if isinstance(document, dict) else None
    keys = [_key(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [key for key in keys if key is not None]


def choose(keys: Sequence[PublicKey], kid: str | None, algorithm: str) -> PublicKey | None:
    """Return the key with this id for this algorithm. A token without a key id uses the key if there is only one."""
    fit = [key for key in keys if algorithm in key.algorithms and kid in (None, key.kid)]
    return fit[0] if len(fit) == 1 or (fit and kid is not None) else None


def _key(jwk: Mapping[str, JSON]) -> PublicKey | None:
    kty, kid = jwk.get("kty"), jwk.get("kid")
    operations = jwk.get("key_ops", ["verify"])
    verifies = jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    if not isinstance(kty, str) or not verifies or not isinstance(kid, str | None):
        return None
    algorithms = _algorithms(kty, jwk)
    public = {name: jwk.get(name) for name in _PARTS.get(kty, ())}
    if not algorithms or not all(isinstance(part, str) for part in public.values()):
        return None
    algorithm = _ALGORITHMS.get_algorithm_by_name(algorithms[0])
    try:
        key = algorithm.from_jwk({"kty": kty, **public})
        short = algorithm.check_key_length(key)
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError):
        return None
    if short is not None:
        return None
    verifying = cast("AllowedPublicKeys", key)  # built from public parts only
    return PublicKey(kid=kid, algorithms=frozenset(algorithms), key=verifying)


def _algorithms(kty: str, jwk: Mapping[str, JSON]) -> Sequence[str]:
    """Return the algorithms that match the key's type, or only the algorithm that it names."""
    curve = jwk.get("crv")
    fit = _RSA
    if kty != "RSA":
        curve_algorithm = _CURVES.get(curve) if isinstance(curve, str) else None
        fit = (
            ()
            if curve_algorithm is None or curve_algorithm.startswith("ES") != (kty == "EC")
            else (curve_algorithm,)
        )
    return fit if "alg" not in jwk else [one for one in fit if one == jwk["alg"]]


Fetch: TypeAlias = Callable[[], Awaitable[bytes]]  # raises `KeysUnavailable`


class ProviderKeys:
    """The provider's keys by id. All concurrent callers share a single fetch."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Sequence[PublicKey] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return the key, or None if the provider does not have it. Raises `KeysUnavailable` without any keys."""
        if not self._keys or self._is_old:
            await self._refresh()
        if not self._keys:
            raise KeysUnavailable
        chosen = choose(self._keys, kid, algorithm)
        if chosen is None and kid is not None and all(key.kid != kid for key in self._keys):
            await self._refresh()
            chosen = choose(self._keys, kid, algorithm)
        return chosen

    @property
    def _is_old(self) -> bool:
        """Return whether the keys are due for renewal. One caller renews them while others use the old keys."""
        return self._clock.monotonic() - self._fetched_at >= LIFE and not self._fetching.locked()

    async def _refresh(self) -> None:
        async with self._fetching:
            pause = PAUSE if self._keys else FIRST_PAUSE
            if self._clock.monotonic() - self._tried_at < pause:
                return
            try:
                keys = read_keys(await self._fetch())
            except KeysUnavailable as error:
                log.warning("The keys for people's tokens cannot be fetched: %s", error)
                return
            finally:
                self._tried_at = self._clock.monotonic()
            if not keys:
                log.warning("The key set for people's tokens has no usable key. The previous keys are kept.")
                return
            self._keys, self._fetched_at = keys, self._clock.monotonic()


def over_http(url: str) -> Fetch:
    """Fetch the key set at the URL, with a timeout and a size limit, without following redirects."""
    context = httpx2.create_ssl_context()  # created once, because it is slow

    async def fetch() -> bytes:
        try:
            async with (
                asyncio.timeout(PATIENCE),
                httpx2.AsyncClient(verify=context, timeout=PATIENCE) as client,
            ):
                return await _read(client, url)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            raise KeysUnavailable(sentence(f"{url}: {str(error) or type(error).__name__}")) from error

    return fetch


async def _read(client: httpx2.AsyncClient, url: str) -> bytes:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code != OK:
            raise KeysUnavailable(f"{url} returned {response.status_code}.")
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_KEY_SET:
                raise KeysUnavailable(f"{url} returned more than {MAX_KEY_SET} bytes.")
        return body


class SharedSecret:
    """Verifies tokens signed with a secret shared with the issuer: HS256 only."""

    def __init__(self, secret: str, expected: ExpectedClaims, clock: Clock) -> None:
        self._secret = secret.encode("utf-8", "surrogateescape")
        self._expected = expected
        self._clock = clock

    async def __call__(self, token: str) -> TokenIdentity:
        header_of(token)
        return identity_of(claims_of(token, self._secret, SHARED), self._expected, self._clock.now())


class SignedByProvider:
    """Verifies tokens signed by an identity provider with one of its published keys."""

    def __init__(self, keys: ProviderKeys, expected: ExpectedClaims, clock: Clock) -> None:
        self._keys = keys
        self._expected = expected
        self._clock = clock

    async def __call__(self, token: str) -> TokenIdentity:
        header = header_of(token)
        public_key = await self._keys.find(header.kid, header.algorithm)
        if public_key is None:
            raise Unauthorized(
                "The token is signed with a key, or by an algorithm, that its provider does not have."
            )
        claims = claims_of(token, public_key.key, header.algorithm)
        return identity_of(claims, self._expected, self._clock.now())
