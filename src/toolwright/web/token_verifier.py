"""The seam between who may call and how a token is verified."""

from typing import Protocol


class TokenVerifier(Protocol):
    """Judges a person's token. Nothing is remembered of it: each request is judged anew."""

    async def __call__(self, token: str) -> str:
        """The external id that the token gives. Raises `Unauthorized`, or `KeysUnavailable`."""
        ...
