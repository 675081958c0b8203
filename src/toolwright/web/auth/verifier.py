"""The seam between who may call and how a token is verified."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The person whom a good token names, by their external id, and until when: seconds since 1970, None for ever."""

    external_id: str
    until: float | None = None


class TokenVerifier(Protocol):
    """Judges a person's token. Nothing is remembered of it: each request is judged anew."""

    async def __call__(self, token: str) -> Named:
        """Whom the token names. Raises `Unauthorized`, or `KeysUnavailable`."""
        ...
