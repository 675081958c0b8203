"""Which addresses are public, in every form, and which ones the operator allows (D13)."""

from ipaddress import ip_address

import pytest

from toolwright.core.tools.http.addresses import Allowed, is_public

PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "192.88.99.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1",
    "2001:db8::1", "2001::1", "2001:20::1", "3fff::1", "64:ff9b:1::7f00:1", "5f00::1",
    "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:10.0.0.1", "::127.0.0.1", "::10.0.0.1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe",
]  # fmt: skip
PUBLIC = [
    "2002:808:808::1",
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "100.128.0.1",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_are_known_in_every_form(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "admitted"),
    [
        ("crm.internal", "CRM.internal.", 443, "10.0.0.1", True),
        ("crm.internal", "xcrm.internal", 443, "10.0.0.1", False),
        ("localhost:8080", "localhost", 8080, "127.0.0.1", True),
        ("localhost:8080", "localhost", 8081, "127.0.0.1", False),
        ("10.1.0.0/16", "anything", 80, "10.1.2.3", True),
        ("10.1.0.0/16", "anything", 80, "::ffff:10.1.2.3", True),
        ("10.1.0.0/16", "anything", 80, "10.2.2.3", False),
        ("127.0.0.1", "api.test", 80, "127.0.0.1", True),
        ("127.0.0.1:80", "127.0.0.1", 80, "127.0.0.1", True),
        ("127.0.0.1:80", "api.test", 80, "127.0.0.1", False),
        ("[fd00::1]:443", "fd00::1", 443, "fd00::1", True),
        ("fd00::/8", "api.test", 443, "fd00::1", True),
        ("::1", "api.test", 443, "::1", True),
    ],
)
def test_the_operator_allows_hosts_ports_and_networks(
    entry: str, host: str, port: int, address: str, admitted: bool
) -> None:
    assert Allowed.read([entry]).admits(host, port, ip_address(address)) is admitted


@pytest.mark.parametrize(
    "entry", ["10.0.0.0/99", "10.0.0.1/8", "host:port", "host:0", "http://host", "a b", "", ":80", "*.x"]
)
def test_what_is_no_host_and_no_network_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="network"):
        Allowed.read([entry])
