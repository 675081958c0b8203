"""Tokens that open one stream each, for browsers whose EventSource cannot send headers."""

import secrets
from datetime import datetime, timedelta

from toolwright.core.ports import Clock
from toolwright.web.auth.access import Caller

LIFE = timedelta(seconds=60)


class StreamTokens:
    """Tokens of one gateway: kept in memory, used once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._issued: dict[str, tuple[datetime, Caller]] = {}

    def issue(self, caller: Caller) -> tuple[str, datetime]:
        """A new token that acts for `caller`, and when it expires."""
        self._forget_expired()
        token = secrets.token_urlsafe(32)
        expires_at = self._clock.now() + LIFE
        self._issued[token] = (expires_at, caller)
        return token, expires_at

    def redeem(self, token: str) -> Caller | None:
        """The caller that the token acts for, once; None if it is unknown, used or expired."""
        self._forget_expired()
        issued = self._issued.pop(token, None)
        return None if issued is None else issued[1]

    def _forget_expired(self) -> None:
        """The oldest come first, since all live equally long."""
        now = self._clock.now()
        while self._issued:
            oldest = next(iter(self._issued))
            if self._issued[oldest][0] > now:
                return
            del self._issued[oldest]
