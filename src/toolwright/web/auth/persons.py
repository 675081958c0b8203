"""Tokens of persons: of a shared secret, or of an identity provider."""

from toolwright.core.errors import Unauthorized
from toolwright.core.ports import Clock
from toolwright.web.auth.jwt_rules import Wanted, claims_of, header_of, named_by
from toolwright.web.auth.provider_keys import ProviderKeys
from toolwright.web.auth.verifier import Named

SHARED = "HS256"


class SharedSecret:
    """Tokens signed with a secret that the issuer shares with us: HS256, nothing else."""

    def __init__(self, secret: str, wanted: Wanted, clock: Clock) -> None:
        self._secret = secret.encode("utf-8", "surrogateescape")
        self._wanted = wanted
        self._clock = clock

    async def __call__(self, token: str) -> Named:
        header_of(token)
        return named_by(claims_of(token, self._secret, SHARED), self._wanted, self._clock.now())


class SignedByProvider:
    """Tokens signed by an identity provider, with one of the keys that it publishes."""

    def __init__(self, keys: ProviderKeys, wanted: Wanted, clock: Clock) -> None:
        self._keys = keys
        self._wanted = wanted
        self._clock = clock

    async def __call__(self, token: str) -> Named:
        header = header_of(token)
        public_key = await self._keys.find(header.kid, header.algorithm)
        if public_key is None:
            raise Unauthorized(
                "The token is signed with a key, or by an algorithm, that its provider does not have."
            )
        claims = claims_of(token, public_key.key, header.algorithm)
        return named_by(claims, self._wanted, self._clock.now())
