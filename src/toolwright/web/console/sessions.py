"""Sessions of the console: signed cookies that expire, and links that sign in once."""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.ports import Clock
from toolwright.web.auth.access import SERVICE, Caller

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
    """Somebody who has signed in, until then: seconds since 1970. Without keys nobody signs in, and nothing ends."""

    id: str
    caller: Caller
    until: float | None = None


OPEN = Session(id="open", caller=SERVICE)
"""The session of everybody on this machine, where there are no keys."""


class Sessions:
    """Sessions of one server.

    A cookie holds its session, signed with a key made of the server's secret keys: it outlives a restart, and ends when
    those keys change. Without secret keys it ends with the process. Those that were signed out are remembered here.
    """

    def __init__(self, clock: Clock, secret_keys: Sequence[str]) -> None:
        self._clock = clock
        seed = "\n".join(secret_keys).encode("utf-8", "surrogateescape") or secrets.token_bytes(32)
        self._key = hmac.digest(seed, b"toolwright console session", "sha256")
        self._ended: dict[str, float] = {}
        self._links: dict[str, tuple[float, Caller]] = {}

    def begin(self, caller: Caller) -> Session:
        """A new session; a person's lasts no longer than their token."""
        until = self._now() + LIFE.total_seconds()
        return Session(id=secrets.token_urlsafe(16), caller=caller, until=min(until, caller.until or until))

    def seal(self, session: Session) -> str:
        """The session as a cookie's value."""
        caller = session.caller
        content: JSONObject = {
            "id": session.id,
            "until": session.until,
            "kind": caller.kind,
            "entity": caller.entity_id,
            "external": caller.external_id,
        }
        content["claims"] = _kept(caller.claims, ROOM - len(_written(content)))
        body = base64.urlsafe_b64encode(_written(content))
        return f"{body.decode()}.{self._signature(body)}"

    def read(self, cookie: str | None) -> Session | None:
        """The session of a cookie that this server has signed, None if it is another's, over or signed out."""
        body, _, signature = (cookie or "")[:LONGEST_COOKIE].partition(".")
        sent = signature.encode("utf-8", "replace")
        if not hmac.compare_digest(sent, self._signature(body.encode()).encode()):
            return None
        content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body))
        caller = Caller(
            kind=content["kind"],
            entity_id=content["entity"],
            external_id=content["external"],
            until=content["until"],
            claims=content.get("claims") or {},
        )
        session = Session(id=content["id"], caller=caller, until=content["until"])
        return session if self.is_open(session) else None

    def is_open(self, session: Session) -> bool:
        """Whether the session is good still."""
        self._forget()
        if session.id in self._ended:
            return False
        return session.until is None or session.until > self._now()

    def end(self, session: Session) -> None:
        """Sign out: the cookie is refused from now on."""
        if session.until is not None:
            self._ended[session.id] = session.until

    def link(self, caller: Caller) -> str:
        """A code that signs in as that caller, once, within ten minutes."""
        self._forget()
        code = secrets.token_urlsafe(24)
        self._links[code] = (self._now() + LINK_LIFE.total_seconds(), caller)
        return code

    def redeem(self, code: str) -> Caller | None:
        """The caller whom a link's code signs in, once."""
        self._forget()
        issued = self._links.pop(code, None)
        return None if issued is None else issued[1]

    def _signature(self, body: bytes) -> str:
        return hmac.new(self._key, body, hashlib.sha256).hexdigest()

    def _forget(self) -> None:
        """What has expired is no session and no link anyway."""
        now = self._now()
        self._ended = {id_: until for id_, until in self._ended.items() if until > now}
        self._links = {code: issued for code, issued in self._links.items() if issued[0] > now}

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
