"""Allowed addresses for URLs from outside: public addresses, and addresses allowed by the operator (D13)."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host name to its addresses."""
AllowsAddress: TypeAlias = Callable[[str, int, Address], bool]
"""Returns whether a request to that host and port may be sent to this address."""
S = TypeVar("S")

_PRIVATE_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
        "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
        "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # metadata service of a cloud, at a public address
    )
)  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")
_PRIVATE_6 = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20")
)
_CARRIERS = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("::ffff:0:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)
"""IPv6 networks with an embedded IPv4 address, and its trailing bits: mapped, translated, NAT64, compatible, 6to4."""

MAX_NAME = 255  # characters of a host name


def is_loopback(name: str) -> bool:
    """Return whether a host name or an address is this machine's own."""
    return len(name) <= MAX_NAME and _is_loopback(name)


@lru_cache(maxsize=256)  # it is asked for twice at each request
def _is_loopback(name: str) -> bool:
    lowered = name.lower().rstrip(".")
    if lowered == "localhost" or lowered.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def is_public(address: Address) -> bool:
    """Return whether an address is public. For an IPv6 address with an embedded IPv4 address, that one is checked."""
    address = embedded(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _PRIVATE_4)
    return address in _PUBLIC_6 and not any(address in network for network in _PRIVATE_6)


def embedded(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 one, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    for network, trailing in _CARRIERS:
        if address in network and int(address) > 1:  # `::` and `::1` embed nothing
            return IPv4Address(int(address) >> trailing & 0xFFFF_FFFF)
    return IPv6Address(int(address))  # without its zone


@dataclass(frozen=True, slots=True)
class Allowed:
    """Addresses that the operator allows: hosts, hosts with a port, networks. Raises `ValueError` for any other."""

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def read(cls, entries: Iterable[str]) -> "Allowed":
        """Parse a list such as `crm.internal`, `localhost:8080`, `10.1.0.0/16`, `[fd00::1]:443`."""
        hosts: set[tuple[str, int | None]] = set()
        networks: list[Network] = []
        for entry in entries:
            network = _network(entry)
            if network is None:
                hosts.add(_host(entry))
            else:
                networks.append(network)
        return cls(frozenset(hosts), tuple(networks))

    def admits(self, host: str, port: int, address: Address) -> bool:
        """Return whether a request to that host and port may be sent to `address`, the host's resolved address."""
        name = _plain(host)
        if (name, port) in self.hosts or (name, None) in self.hosts:
            return True
        forms = (address, embedded(address))
        return any(form in network for network in self.networks for form in forms)


def anywhere(host: str, port: int, address: Address) -> bool:
    """Allow every address, for trusted URLs."""
    return True


def public_or(allowed: Allowed) -> AllowsAddress:
    """Return a filter for URLs from outside and for redirects: public addresses and the `allowed` addresses."""
    return lambda host, port, address: is_public(address) or allowed.admits(host, port, address)


def _network(entry: str) -> Network | None:
    try:
        return ip_network(entry.removeprefix("[").removesuffix("]") if entry.endswith("]") else entry)
    except ValueError:
        if "/" in entry:
            raise ValueError(f"{entry!r} is not a network. Write it as 10.1.0.0/16") from None
        return None


def _host(entry: str) -> tuple[str, int | None]:
    name, colon, port = entry.rpartition(":")
    if not colon:
        name, port = entry, ""
    fine = name and not any(each.isspace() or each in "@?#*" for each in entry)
    if not fine or (colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536)):
        raise ValueError(f"{entry!r} must be a host, a host with a port, or a network such as 10.1.0.0/16")
    return _plain(name), int(port) if colon else None


def _plain(host: str) -> str:
    bare = host.removeprefix("[").removesuffix("]").rstrip(".").lower()
    try:
        return str(ip_address(bare))
    except ValueError:
        return bare


def names_host(url: str) -> bool:
    """Return whether the URL has a host, and no invalid port."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def has_valid_ports(url: str) -> bool:
    """Return whether the ports in a Postgres URL are valid; there can be several hosts, each with a port."""
    try:
        hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
        return all(urlsplit(f"//{host}").port != 0 for host in hosts)
    except ValueError:
        return False


def is_safe_url(url: str) -> bool:
    """Return whether the URL is protected against replaced keys: HTTPS, or this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
