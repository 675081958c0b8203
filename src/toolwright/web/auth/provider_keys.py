"""The keys of an identity provider: fetched when needed, kept while it is away, never asked for too often."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWS, PyJWTError
from jwt.algorithms import AllowedPublicKeys

from toolwright.core.errors import KeysUnavailable
from toolwright.core.json_value import JSON
from toolwright.core.ports import Clock
from toolwright.core.text import sentence

log = logging.getLogger("toolwright.web")

_PARTS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}  # the public ones
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}
_JWS = PyJWS()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key, and the algorithms that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    key: AllowedPublicKeys


def read_keys(text: bytes) -> Sequence[PublicKey]:
    """The keys of a set that can verify signatures; others are left out, also whatever is no set of keys."""
    try:
        document: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = document.get("keys") if isinstance(document, dict) else None
    keys = [_key(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [key for key in keys if key is not None]


def choose(keys: Sequence[PublicKey], kid: str | None, algorithm: str) -> PublicKey | None:
    """The key of that id for that algorithm; for a token that names none, the only one there is."""
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
    algorithm = _JWS.get_algorithm_by_name(algorithms[0])
    try:
        key = algorithm.from_jwk({"kty": kty, **public})
        short = algorithm.check_key_length(key)
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError):
        return None
    if short is not None:
        return None
    verifying = cast("AllowedPublicKeys", key)  # made of public parts alone
    return PublicKey(kid=kid, algorithms=frozenset(algorithms), key=verifying)


def _algorithms(kty: str, jwk: Mapping[str, JSON]) -> Sequence[str]:
    """Those that fit the key's kind, and of them the one that it names, if it does."""
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


LIFE = 600.0  # seconds after which keys are looked at again: so a key that was withdrawn is forgotten
PAUSE = 10.0  # seconds between two fetches at the least, whatever kids callers make up
FIRST_PAUSE = 1.0  # the same while there were never any keys
OK = 200
PATIENCE = 5.0  # seconds for one fetch
LARGEST = 256 * 1024  # bytes of a key set

Fetch: TypeAlias = Callable[[], Awaitable[bytes]]  # raises `KeysUnavailable`


class ProviderKeys:
    """The provider's keys by id. Whatever many callers want, one fetch at a time is made for all of them."""

    def __init__(self, fetch: Fetch, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Sequence[PublicKey] = ()
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The key, None if the provider has no such. Raises `KeysUnavailable` if there were never any."""
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
        """Old keys are renewed by one caller; the others go on with them meanwhile."""
        return self._clock.monotonic() - self._fetched_at >= LIFE and not self._fetching.locked()

    async def _refresh(self) -> None:
        async with self._fetching:
            pause = PAUSE if self._keys else FIRST_PAUSE
            if self._clock.monotonic() - self._tried_at < pause:
                return
            try:
                keys = read_keys(await self._fetch())
            except KeysUnavailable as error:
                log.warning("The keys of people's tokens cannot be fetched: %s", error)
                return
            finally:
                self._tried_at = self._clock.monotonic()
            if not keys:
                log.warning("The key set of people's tokens has no key that can be used: the last ones stay.")
                return
            self._keys, self._fetched_at = keys, self._clock.monotonic()


def over_http(url: str) -> Fetch:
    """Fetches the key set at that URL: within a time, up to a size, without following redirects."""
    context = httpx.create_ssl_context()  # once: it takes a while

    async def fetch() -> bytes:
        try:
            async with (
                asyncio.timeout(PATIENCE),
                httpx.AsyncClient(verify=context, timeout=PATIENCE) as client,
            ):
                return await _read(client, url)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError) as error:
            raise KeysUnavailable(sentence(f"{url}: {str(error) or type(error).__name__}")) from error

    return fetch


async def _read(client: httpx.AsyncClient, url: str) -> bytes:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with client.stream("GET", url, headers=headers) as response:
        if response.status_code != OK:
            raise KeysUnavailable(f"{url} answers {response.status_code}.")
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > LARGEST:
                raise KeysUnavailable(f"{url} answers with more than {LARGEST} bytes.")
        return body
