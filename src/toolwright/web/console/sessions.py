"""Sessions of the console: signed cookies that expire, and links that sign in once."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.web.auth.access import SERVICE, Caller
from toolwright.web.auth.one_time import OneTimeTokens, Signature

COOKIE = "toolwright_session"
LIFE = timedelta(hours=12)
LINK_LIFE = timedelta(minutes=10)
ROOM = 2_800  # bytes of a session: with its signature and in base64 they are a cookie that browsers keep
_OF_TOKENS = frozenset(
    {"iss", "aud", "exp", "nbf", "iat", "jti"}
)  # claims about the token, not about the person
LONGEST_COOKIE = 4_096  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A caller who has signed in; `begun` and `until` are seconds since 1970.

    Without keys nobody signs in, and no session ends.
    """

    id: str
    caller: Caller
    begun: float = 0.0
    until: float | None = None

    @property
    def caller_key(self) -> str:
        """The key of all sessions of this caller: the person's, or those of a secret key of that name."""
        caller = self.caller
        return f"person:{caller.entity_id}" if caller.kind == "person" else f"service:{caller.name or ''}"


OPEN = Session(id="open", caller=SERVICE)
"""The session of everybody on this machine, where there are no keys."""


class Sessions:
    """Sessions of one server.

    A cookie holds its session, signed with a key made of the server's secret keys: it outlives a restart, and ends when
    those keys change. Without secret keys it ends with the process. The journal keeps which were signed out, see
    `ConsoleApp.sign_out`; this process knows its own without asking. `links` sign in once, within ten minutes.
    """

    def __init__(self, clock: Clock, secret_keys: Sequence[str]) -> None:
        self._clock = clock
        self._signature = Signature(secret_keys, "toolwright console session")
        self.links = OneTimeTokens(clock, secret_keys, "console link", LINK_LIFE)
        self._ended: dict[str, float] = {}

    def begin(self, caller: Caller) -> Session:
        """A new session; a person's lasts no longer than their token."""
        now = self._now()
        until = now + LIFE.total_seconds()
        until = min(until, caller.until or until)
        return Session(id=secrets.token_urlsafe(16), caller=caller, begun=now, until=until)

    def seal(self, session: Session) -> str:
        """The session as a cookie's value."""
        caller = session.caller
        content: JSONObject = {
            "id": session.id,
            "begun": session.begun,
            "until": session.until,
            "kind": caller.kind,
            "entity": caller.entity_id,
            "external": caller.external_id,
            "name": caller.name,
        }
        content["claims"] = _kept(caller.claims, ROOM - len(_written(content)))
        return self._signature.seal(_written(content))

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that this server has signed, None if it is another's, over or signed out."""
        written = self._signature.open((cookie or "")[:LONGEST_COOKIE])
        if written is None:
            return None
        content: dict[str, Any] = json.loads(written)
        caller = Caller(
            kind=content["kind"],
            entity_id=content["entity"],
            external_id=content["external"],
            until=content["until"],
            claims=content.get("claims") or {},
            name=content.get("name"),
        )
        begun, until = content.get("begun", 0.0), content["until"]
        session = Session(id=content["id"], caller=caller, begun=begun, until=until)
        return session if self.is_open(session) else None

    def is_open(self, session: Session) -> bool:
        """Return whether the session is good still."""
        self._forget()
        if session.id in self._ended:
            return False
        return session.until is None or session.until > self._now()

    def end(self, session: Session) -> None:
        """Sign out: the cookie is refused from now on."""
        if session.until is not None:
            self._ended[session.id] = session.until

    def _forget(self) -> None:
        """Forget the sessions that have expired: they are refused without it."""
        now = self._now()
        self._ended = {id_: until for id_, until in self._ended.items() if until > now}

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _kept(claims: Mapping[str, JSON], room: int) -> JSONObject:
    """Return the claims about the person that fit into a cookie, the shortest first."""
    kept: JSONObject = {}
    of_person = [
        (len(_written({name: each})), name) for name, each in claims.items() if name not in _OF_TOKENS
    ]
    for size, name in sorted(of_person):
        room -= size
        if room < 0:
            break
        kept[name] = claims[name]
    return kept


def _written(content: JSONObject) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()
