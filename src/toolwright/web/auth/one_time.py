"""Tokens and links that act for a caller once, whichever process of the server is asked."""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from toolwright.core.json_value import JSON
from toolwright.core.ports import Clock
from toolwright.web.auth.access import Caller

STREAM_LIFE = timedelta(seconds=60)
LONGEST = 4_096  # characters of a token
MARGIN = timedelta(minutes=10)  # for which it is known longer that one was used: clocks of processes differ

UseOnce: TypeAlias = Callable[[str, datetime], Awaitable[bool]]
"""Uses up a key until that time, and returns whether it was there to be used."""


class Signature:
    """Signs bytes for one purpose, with a key made of the server's keys; without any, with a key of this process."""

    def __init__(self, keys: Sequence[str], purpose: str) -> None:
        seed = "\n".join(keys).encode("utf-8", "surrogateescape") or secrets.token_bytes(32)
        self._key = hmac.digest(seed, purpose.encode(), "sha256")

    def seal(self, content: bytes) -> str:
        """Return the content with its signature, as text of a cookie or a query."""
        body = base64.urlsafe_b64encode(content)
        return f"{body.decode()}.{self._of(body)}"

    def open(self, sealed: str) -> bytes | None:
        """Return the content of a text that was signed with this key, None for any other."""
        body, _, signature = sealed.partition(".")
        sent = signature.encode("utf-8", "replace")
        if not hmac.compare_digest(sent, self._of(body.encode("utf-8", "replace")).encode()):
            return None
        return base64.urlsafe_b64decode(body)

    def _of(self, body: bytes) -> str:
        return hmac.new(self._key, body, hashlib.sha256).hexdigest()


class OneTimeTokens:
    """Tokens for one purpose, which live so long. A token holds its caller; the journal keeps which were used."""

    def __init__(self, clock: Clock, keys: Sequence[str], purpose: str, life: timedelta) -> None:
        self._clock, self._life = clock, life
        self._signature = Signature(keys, f"toolwright {purpose}")

    def issue(self, caller: Caller) -> tuple[str, datetime]:
        """Return a new token that acts for `caller`, and when it expires."""
        expires_at = self._clock.now() + self._life
        content: list[JSON] = [secrets.token_urlsafe(12), expires_at.timestamp(), caller.kind, caller.scope]
        content += [caller.entity_id, caller.external_id, caller.name]
        return self._signature.seal(json.dumps(content, ensure_ascii=False).encode()), expires_at

    async def redeem(self, token: str, use_once: UseOnce) -> Caller | None:
        """Return the caller that the token acts for, once; None if it is unknown, used or expired."""
        content = self._signature.open(token[:LONGEST])
        if content is None:
            return None
        id_, until, kind, scope, entity_id, external_id, name = json.loads(content)
        now = self._clock.now()
        if until <= now.timestamp() or not await use_once(f"token:{id_}", now + self._life + MARGIN):
            return None
        return Caller(kind=kind, entity_id=entity_id, external_id=external_id, name=name, scope=scope)
