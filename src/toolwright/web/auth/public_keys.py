"""A provider's JSON Web Key Set as keys that can verify (RFC 7517): asymmetric ones, each for its algorithms only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from cryptography.exceptions import UnsupportedAlgorithm
from jwt import PyJWS, PyJWTError
from jwt.algorithms import AllowedPublicKeys

from toolwright.core.json_value import JSON

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
        found: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = found.get("keys") if isinstance(found, dict) else None
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
        known = _CURVES.get(curve) if isinstance(curve, str) else None
        fit = () if known is None or known.startswith("ES") != (kty == "EC") else (known,)
    return fit if "alg" not in jwk else [one for one in fit if one == jwk["alg"]]
