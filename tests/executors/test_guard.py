"""Allowed targets of external URLs (D13): every form of a private address, names that resolve twice, TLS by name."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.executors.rig import PUBLIC, bench
from toolwright.adapters.executors.request import resolve

pytestmark = pytest.mark.anyio

REFUSED = "The service at {!r} has an address that is not public; the operator may allow it with TOOLWRIGHT_HTTP_ALLOW."


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "0", "0.0.0.0",
        "169.254.169.254", "2852039166", "10.0.0.1", "192.168.1", "100.64.0.1",
        "[::1]", "[::]", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]",
        "[::127.0.0.1]", "[2002:7f00:1::]", "[64:ff9b::169.254.169.254]", "[ff02::1]",
        "127。0。0。1", "①②⑦.0.0.1",
    ],
)  # fmt: skip
async def test_numbers_are_validated_as_the_system_reads_them(host: str) -> None:
    async with bench(resolve=resolve) as on:
        result = await on.call(host=host)
        assert result.error_code in ("address_refused", "http_bad_url", "http_unreachable"), result.error
        assert (on.wires.dialled, on.server.received) == ([], [])


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_the_words_of_a_refusal(host: str) -> None:
    async with bench(resolve=resolve) as on:
        result = await on.call(host=host)
        assert result.error == REFUSED.format(host.strip("[]"))
        assert result.error_code == "address_refused"


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "fd00:ec2::254", "::ffff:10.0.0.1"])
async def test_a_name_is_validated_by_all_of_its_addresses(address: str) -> None:
    names = {"inside.test": [[address]], "both.test": [[PUBLIC, address]]}
    async with bench(names) as on:
        for host in names:
            result = await on.call(host=host)
            assert result.error == REFUSED.format(host)
        assert on.wires.dialled == []


async def test_the_address_that_was_validated_is_the_one_connected_to() -> None:
    """A name that resolves to another address the second time has no effect: it is resolved only once."""
    async with bench({"rebind.test": [[PUBLIC], ["127.0.0.1"]]}) as on:
        first = await on.call(host="rebind.test")
        assert first.status == "success"
        assert on.names.asked == ["rebind.test"]
        assert on.wires.dialled == [PUBLIC]
        assert (await on.call(host="rebind.test")).status == "success"
        assert on.wires.dialled == [PUBLIC], "the open connection leads where it was judged to lead"
        await on.executor.aclose()
        assert (await on.call(host="rebind.test")).error_code == "address_refused"


async def test_what_the_operator_allows_is_reached() -> None:
    names = {"crm.internal": [["10.0.0.5"]], "erp.internal": [["10.9.0.5"]]}
    async with bench(names, allow=["crm.internal"]) as on:
        assert (await on.call(host="crm.internal")).status == "success"
        assert (await on.call(host="erp.internal")).error_code == "address_refused"
    async with bench(names, allow=["10.9.0.0/16"]) as on:
        assert (await on.call(host="crm.internal")).error_code == "address_refused"
        assert (await on.call(host="erp.internal")).status == "success"
        assert on.wires.dialled == ["10.9.0.5"]
    async with bench(names, allow=["crm.internal:1"]) as on:
        assert (await on.call(host="crm.internal")).error_code == "address_refused"


async def test_urls_of_the_operators_own_are_taken_as_written() -> None:
    async with bench({"inside.test": [["127.0.0.1"]]}) as on:
        assert (await on.call(host="inside.test", trusted=True)).status == "success"
        assert (await on.call(host="inside.test")).error_code == "address_refused", (
            "a connection that was opened without a check is not used for what needs one"
        )


def _contexts(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Run a server with a self-signed certificate for `name`, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = folder / "chain.pem"
    chain.write_bytes(pem + key.private_bytes(serialization.Encoding.PEM, *form))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return server, ssl.create_default_context(cadata=pem.decode())


async def test_tls_knows_the_name_and_not_the_address(tmp_path: Path) -> None:
    server, client = _contexts(tmp_path, "api.test")
    async with bench(tls=(server, client)) as on:
        assert (await on.call(scheme="https")).status == "success"
        assert on.wires.dialled == [PUBLIC]
        assert on.server.received[0].headers["Host"] == f"api.test:{on.server.port}"
        other = await on.call(scheme="https", host="other.test")
        assert other.error == (
            "The service at 'other.test' cannot be reached: TLS failed (CERTIFICATE_VERIFY_FAILED)."
        )
    async with bench(tls=(server, ssl.create_default_context())) as on:
        assert "TLS failed" in ((await on.call(scheme="https")).error or "")
        assert on.server.received == []
