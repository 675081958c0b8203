"""Who the client says it is: a service by its key, a person by a public key and a token."""

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolwright.core.errors import InvalidRequest

Token: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A JWT, or what gives a fresh one; it is asked before every request."""


class Identity:
    """The headers that say who calls. Raises `InvalidRequest` for what a header cannot carry."""

    def __init__(self, secret_key: str | None, public_key: str | None, token: Token | None) -> None:
        keys = {"x-secret-key": secret_key, "x-public-key": public_key}
        self._fixed = {name: _carried(name, key) for name, key in keys.items() if key is not None}
        self._token = token
        if isinstance(token, str):
            _carried("authorization", token)

    async def headers(self) -> dict[str, str]:
        """The headers of one request."""
        if self._token is None:
            return self._fixed
        given = self._token if isinstance(self._token, str) else self._token()
        token = await given if inspect.isawaitable(given) else given
        return {**self._fixed, "authorization": f"Bearer {_carried('authorization', token)}"}


def _carried(name: str, text: str) -> str:
    """The text, if it is one that a header takes; it is not repeated in words: it is a secret."""
    if not isinstance(text, str) or not text.isascii() or not text.isprintable() or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
        raise InvalidRequest(
            f"What is sent as the header {name} must be text of printable ASCII characters, and not empty."
        )
    return text
