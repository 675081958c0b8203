"""Is this token good, and whom does it name? Pure rules over JSON Web Tokens (RFC 7519, RFC 8725)."""

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jwt import PyJWS, PyJWTError
from jwt.algorithms import AllowedPublicKeys

from toolwright.core.errors import Unauthorized
from toolwright.core.json_value import JSON, JSONObject
from toolwright.web.auth.verifier import Named

LONGEST = 16 * 1024  # characters of a token
EARLY = 5.0  # seconds by which the issuer's clock may be ahead of ours; nothing is granted after `exp`

_JWS = PyJWS(options={"enforce_minimum_key_length": True})
_WRONG = "The token is not valid."


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a token, before anybody has verified it."""

    algorithm: str
    kid: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The required claims of a token: its `claim` names the person. Audience and issuer only if they are given."""

    claim: str
    audience: str | None = None
    issuer: str | None = None


def header_of(token: str) -> Header:
    """The token's header. Raises `Unauthorized` for what is no token, or asks for more than we know (`crit`)."""
    if len(token) > LONGEST:
        raise Unauthorized("The token is too long.")
    try:
        header: dict[str, Any] = _JWS.get_unverified_header(token)  # any JSON object, from anybody
    except (PyJWTError, ValueError) as error:
        raise Unauthorized(_WRONG) from error
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or "crit" in header or "b64" in header:
        raise Unauthorized(_WRONG)
    return Header(algorithm=algorithm, kid=kid)


def claims_of(token: str, key: AllowedPublicKeys | bytes, algorithm: str) -> JSONObject:
    """The claims, if that key signed them by that algorithm and no other, else `Unauthorized`."""
    try:
        payload: bytes = _JWS.decode(token, key, algorithms=[algorithm])
        claims: JSON = json.loads(payload)
    except (PyJWTError, ValueError, RecursionError) as error:
        raise Unauthorized(_WRONG) from error
    if not isinstance(claims, dict):
        raise Unauthorized(_WRONG)
    return claims


def named_by(claims: JSONObject, wanted: Wanted, now: datetime) -> Named:
    """Whom the token names, if it is good now, else `Unauthorized`. `exp` and `nbf` may be absent."""
    at = now.timestamp()
    expires, begins = _instant(claims, "exp"), _instant(claims, "nbf")
    if expires is not None and expires <= at:
        raise Unauthorized("The token has expired.")
    if begins is not None and begins > at + EARLY:
        raise Unauthorized("The token is not valid yet.")
    if wanted.issuer is not None and claims.get("iss") != wanted.issuer:
        raise Unauthorized("The token is not from the issuer whose tokens are taken here.")
    if wanted.audience is not None and wanted.audience not in _audience(claims):
        raise Unauthorized("The token is not meant for this server: its audience is another, or none.")
    name = claims.get(wanted.claim)
    if not isinstance(name, str) or not name:
        raise Unauthorized(f"The token lacks the claim {wanted.claim!r}, or it is not text.")
    return Named(external_id=name, until=expires, claims=claims)


def _audience(claims: JSONObject) -> list[JSON]:
    """A token is meant for one, or for each in a list (RFC 7519 §4.1.3)."""
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
