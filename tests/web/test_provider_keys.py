"""Tokens of an identity provider: the valid keys, and how rarely they are fetched."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.web.signing import (
    SECRET,
    Claims,
    Provider,
    claims,
    ec_key,
    ed_key,
    jwk,
    pem,
    provider,
    raw,
    rsa_key,
    signed,
)
from toolwright.core.errors import KeysUnavailable, Unauthorized
from toolwright.testing import ManualClock
from toolwright.web.auth.person_tokens import (
    FIRST_PAUSE,
    LIFE,
    MAX_KEY_SET,
    PAUSE,
    ExpectedClaims,
    ProviderKeys,
    SignedByProvider,
    over_http,
    read_keys,
)

pytestmark = pytest.mark.anyio


def verifier(of: Provider, clock: ManualClock | None = None) -> SignedByProvider:
    clock = clock or ManualClock(datetime.now(UTC))
    return SignedByProvider(ProviderKeys(over_http(of.url), clock), ExpectedClaims(claim="sub"), clock)


def by_rsa(kid: str | None = "k1", number: int = 0, algorithm: str = "RS256", **more: Any) -> str:
    header = {} if kid is None else {"kid": kid}
    return signed(claims(**more), rsa_key(number=number), algorithm, **header)


async def refused(verify: SignedByProvider, token: str) -> None:
    with pytest.raises(Unauthorized):
        await verify(token)


async def test_tokens_of_every_kind_of_key_are_good() -> None:
    keys = [jwk(rsa_key(), "r"), jwk(ec_key(), "e", use="sig"), jwk(ed_key(), "o", key_ops=["verify"])]
    async with provider(*keys) as idp:
        verify = verifier(idp)
        for key, kid, algorithm in (
            (rsa_key(), "r", "RS256"),
            (rsa_key(), "r", "PS512"),
            (ec_key(), "e", "ES256"),
            (ed_key(), "o", "EdDSA"),
        ):
            assert (await verify(signed(claims(), key, algorithm, kid=kid))).external_id == "ada"
        assert idp.asked == 1
        assert "accept-encoding: identity" in idp.heads[0].lower()


async def test_a_token_signed_by_another_way_than_its_key_is_for_is_refused() -> None:
    async with provider(jwk(rsa_key(), "k1", alg="RS256"), jwk(ec_key(), "e")) as idp:
        verify = verifier(idp)
        assert (await verify(by_rsa())).external_id == "ada"
        public, secret = pem(rsa_key()), SECRET.encode()
        modulus = json.dumps(jwk(rsa_key())).encode()
        for header in ({"alg": "HS256", "kid": "k1"}, {"alg": "HS256"}):
            for key in (public, public.strip(), modulus, secret, None):
                await refused(verify, raw(header, claims(), key))
        for algorithm in ("none", "RS384", "ES256", "EdDSA", "HS256", "rs256"):
            await refused(verify, raw({"alg": algorithm, "kid": "k1"}, claims(), None))
        await refused(verify, by_rsa(algorithm="RS384"))
        await refused(verify, by_rsa(algorithm="PS256"))
        await refused(verify, by_rsa(number=1))
        await refused(verify, by_rsa(kid="e"))
        await refused(verify, signed(claims(), ec_key(), "ES256", kid="k1"))
        await refused(
            verify, signed(claims(), rsa_key(number=1), "RS256", kid="k1", jwk=jwk(rsa_key(number=1)))
        )
        await refused(verify, signed(claims(exp=1), rsa_key(), "RS256", kid="k1"))
        assert idp.asked == 1


async def test_a_token_without_a_kid_needs_the_one_key_there_is() -> None:
    async with provider(jwk(rsa_key(), None), jwk(ec_key(), "e")) as idp:
        verify = verifier(idp)
        assert (await verify(by_rsa(kid=None))).external_id == "ada"
        assert (await verify(signed(claims(), ec_key(), "ES256"))).external_id == "ada"
        idp.keys.append(jwk(rsa_key(number=1), "second"))
    async with provider(*idp.keys) as idp:
        await refused(verifier(idp), by_rsa(kid=None))


OCT: Claims = {"kty": "oct", "kid": "k1", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlYw"}
UNFIT: dict[str, Claims] = {
    "a shared secret": OCT,
    "a shared secret for HS256": {**OCT, "alg": "HS256"},
    "a short RSA key": jwk(rsa_key(1024)),
    "use enc": jwk(rsa_key(), use="enc"),
    "key_ops encrypt": jwk(rsa_key(), key_ops=["encrypt"]),
    "key_ops that are no list": jwk(rsa_key(), key_ops="verify"),
    "RSA for HS256": jwk(rsa_key(), alg="HS256"),
    "RSA for none": jwk(rsa_key(), alg="none"),
    "RSA for ES256": jwk(rsa_key(), alg="ES256"),
    "an alg that is null": jwk(rsa_key(), alg=None),
    "a kid that is no text": {**jwk(rsa_key()), "kid": 5},
    "a point of another curve": jwk(ec_key(), crv="P-384"),
    "a curve of another kind": jwk(ec_key(), crv="Ed25519"),
    "a curve that is no text": jwk(ec_key(), crv=["P-256"]),
    "a point off the curve": jwk(ec_key(), x="AAAA"),
    "no base64": jwk(ed_key(), x="!!"),
    "a modulus that is no text": {"kty": "RSA", "kid": "k1", "n": 5, "e": "AQAB"},
    "an empty modulus": {"kty": "RSA", "kid": "k1", "n": "", "e": "AQAB"},
    "no exponent": {"kty": "RSA", "kid": "k1", "n": "AQAB"},
    "a kty that is no text": {"kty": ["RSA"], "kid": "k1"},
    "X25519": {"kty": "OKP", "crv": "X25519", "x": "AAAA"},
    "nothing": {},
}


@pytest.mark.parametrize("bad", UNFIT.values(), ids=UNFIT.keys())
def test_keys_that_cannot_verify_are_left_out(bad: Claims) -> None:
    assert read_keys(json.dumps({"keys": [bad, 5, None]}).encode()) == []
    [kept] = read_keys(json.dumps({"keys": [bad, jwk(rsa_key(), "good")]}).encode())
    assert kept.kid == "good"


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"keys": 5}', b'{"keys": {}}', b"\xff", b"[" * 99_999])
def test_what_is_no_key_set_has_no_keys(text: bytes) -> None:
    assert read_keys(text) == []


def test_of_a_private_key_only_the_public_part_is_read() -> None:
    private = {**jwk(rsa_key()), "d": "AQAB"}
    [key] = read_keys(json.dumps({"keys": [private]}).encode())
    assert not hasattr(key.key, "private_numbers")


async def test_made_up_kids_do_not_hammer_the_provider() -> None:
    clock = ManualClock(datetime.now(UTC))
    async with provider(jwk(rsa_key())) as idp:
        verify = verifier(idp, clock)
        assert (await verify(by_rsa())).external_id == "ada"
        for round_ in range(3):
            await asyncio.gather(*(refused(verify, by_rsa(f"{round_}-{n}", 1)) for n in range(50)))
            assert idp.asked == 1 + round_
            clock.advance(PAUSE)
        assert (await verify(by_rsa())).external_id == "ada"


async def test_a_new_key_is_found_when_a_token_names_it() -> None:
    clock = ManualClock(datetime.now(UTC))
    async with provider(jwk(rsa_key())) as idp:
        verify = verifier(idp, clock)
        assert (await verify(by_rsa())).external_id == "ada"
        idp.keys = [jwk(rsa_key(number=1), "k2")]
        clock.advance(PAUSE)
        named = await asyncio.gather(*(verify(by_rsa("k2", 1)) for _ in range(20)))
        assert [each.external_id for each in named] == ["ada"] * 20
        assert idp.asked == 2
        await refused(verify, by_rsa())


async def test_a_key_that_was_withdrawn_is_forgotten_in_time() -> None:
    clock = ManualClock(datetime.now(UTC))
    async with provider(jwk(rsa_key()), jwk(rsa_key(number=1), "k2")) as idp:
        verify = verifier(idp, clock)
        assert (await verify(by_rsa(exp=clock.now().timestamp() + 9_999))).external_id == "ada"
        idp.keys = idp.keys[1:]
        clock.advance(LIFE)
        await refused(verify, by_rsa(exp=clock.now().timestamp() + 9_999))


async def test_many_first_callers_make_one_fetch() -> None:
    async with provider(jwk(rsa_key())) as idp:
        idp.open.clear()
        verify = verifier(idp)
        tasks = [asyncio.create_task(verify(by_rsa())) for _ in range(50)]
        await idp.came.acquire()
        idp.open.set()
        assert [each.external_id for each in await asyncio.gather(*tasks)] == ["ada"] * 50
        assert idp.asked == 1


async def test_old_keys_serve_while_one_caller_renews_them() -> None:
    clock = ManualClock(datetime.now(UTC))
    later = clock.now().timestamp() + 9_999
    async with provider(jwk(rsa_key())) as idp:
        verify = verifier(idp, clock)
        await verify(by_rsa())
        idp.open.clear()
        clock.advance(LIFE)
        renewing = asyncio.create_task(verify(by_rsa(exp=later)))
        await idp.came.acquire()
        await idp.came.acquire()
        assert (await verify(by_rsa(exp=later))).external_id == "ada"
        assert not renewing.done()
        idp.open.set()
        assert (await renewing).external_id == "ada"


async def test_while_the_provider_is_down_the_last_keys_are_good(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(datetime.now(UTC))
    later = clock.now().timestamp() + 99_999
    async with provider(jwk(rsa_key())) as idp:
        verify = verifier(idp, clock)
        await verify(by_rsa())
        for change in (
            {"status": 500},
            {"status": 302},
            {"status": 200, "body": b"{}"},
            {"body": b"x" * MAX_KEY_SET},
        ):
            for name, value in change.items():
                setattr(idp, name, value)
            clock.advance(LIFE)
            asked = idp.asked
            with caplog.at_level(logging.WARNING):
                assert (await verify(by_rsa(exp=later))).external_id == "ada"
            assert idp.asked == asked + 1
            assert (await verify(by_rsa(exp=later))).external_id == "ada"
            assert idp.asked == asked + 1
    clock.advance(LIFE)
    assert (await verify(by_rsa(exp=later))).external_id == "ada"
    assert "returned 500" in caplog.text


async def test_without_any_keys_no_caller_is_checked() -> None:
    clock = ManualClock(datetime.now(UTC))
    async with provider() as idp:
        idp.status = 503
        verify = verifier(idp, clock)
        for _ in range(20):
            with pytest.raises(KeysUnavailable):
                await verify(by_rsa())
        assert idp.asked == 1
        idp.status, idp.keys = 200, [jwk(rsa_key())]
        clock.advance(FIRST_PAUSE)
        assert (await verify(by_rsa())).external_id == "ada"


async def test_what_is_no_token_is_refused_before_anybody_is_asked() -> None:
    async with provider(jwk(rsa_key())) as idp:
        await refused(verifier(idp), "not a token")
        assert idp.asked == 0


async def test_a_key_set_that_is_too_large_is_not_read() -> None:
    async with provider(jwk(rsa_key())) as idp:
        idp.body = json.dumps({"keys": idp.keys}).encode().ljust(MAX_KEY_SET + 1)
        with pytest.raises(KeysUnavailable, match=f"more than {MAX_KEY_SET} bytes"):
            await over_http(idp.url)()
