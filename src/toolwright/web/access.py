"""Who may call: the rules of authentication, as functions of what a request says (API §3)."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Literal
from urllib.parse import urlsplit

from toolwright.core.errors import Forbidden, Unauthorized

CLOSED = "This server has no secret keys, so it serves callers on this machine only."


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls. A service has all rights."""

    kind: Literal["service"]


SERVICE = Caller(kind="service")


class Access:
    """Judges callers by the configured keys; without any, by where they call from."""

    def __init__(self, secret_keys: tuple[str, ...], cors_origins: tuple[str, ...]) -> None:
        self._keys = [key.encode("utf-8", "surrogateescape") for key in secret_keys]
        self._origins = frozenset(cors_origins)

    def service(self, key: str | None, headers: Mapping[str, str], peer: str | None) -> Caller:
        """The caller as a service. Raises `Unauthorized` or `Forbidden`."""
        if self._keys:
            return self._with_key(key)
        self.check_local(headers, peer)
        return SERVICE

    def check_local(self, headers: Mapping[str, str], peer: str | None) -> None:
        """Where there are no keys: the caller and its page must be of this machine (no DNS rebinding)."""
        if self._keys:
            return
        if peer is None or not is_loopback(peer):
            raise Forbidden(CLOSED)
        host = headers.get("host", "")
        if not is_loopback(_host_name(host)):
            raise Forbidden(
                f"The host {host!r} is not this machine: call it as localhost, or configure secret keys."
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and not is_loopback(_origin_name(origin)):
            raise Forbidden(f"The origin {origin!r} may not call this server: add it to the CORS origins.")

    def _with_key(self, key: str | None) -> Caller:
        if key is None:
            raise Unauthorized
        given = key.encode("latin-1", "replace")  # headers are read as latin-1: these are the bytes sent
        same = [hmac.compare_digest(given, known) for known in self._keys]  # all of them: no early end
        if not any(same):
            raise Unauthorized("The secret key is wrong.")
        return SERVICE


def is_loopback(name: str) -> bool:
    """Whether a host name or an address is this machine's own."""
    lowered = name.lower().rstrip(".")
    if lowered == "localhost" or lowered.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _host_name(host: str) -> str:
    return _origin_name(f"//{host}")


def _origin_name(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""
