"""Tokens of a shared secret: valid ones, and every kind of invalid ones."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.web.signing import OTHER, SECRET, Claims, claims, pem, raw, rsa_key, signed
from toolwright.core.errors import Unauthorized
from toolwright.testing import ManualClock
from toolwright.web.auth.access import TokenIdentity
from toolwright.web.auth.person_tokens import CLOCK_SKEW, MAX_TOKEN, ExpectedClaims, SharedSecret

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)
AT = NOW.timestamp()
HS = {"alg": "HS256", "typ": "JWT"}


async def judge(token: str, claim: str = "sub") -> str:
    return (await SharedSecret(SECRET, ExpectedClaims(claim=claim), ManualClock(NOW))(token)).external_id


@pytest.mark.parametrize(
    ("given", "claim"),
    [
        ({"sub": "ada"}, "sub"),
        ({"sub": "ada", "exp": AT + 1, "nbf": AT - 1, "iat": AT + 9, "aud": "x", "iss": ["y"]}, "sub"),
        ({"sub": "ada", "nbf": AT + CLOCK_SKEW - 1}, "sub"),
        ({"email": "ada", "sub": 5}, "email"),
        ({"https://example.org/id": "ada"}, "https://example.org/id"),
    ],
)
async def test_a_good_token_gives_its_claim(given: Claims, claim: str) -> None:
    assert await judge(raw(HS, given), claim) == "ada"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sub": "ada", "exp": AT - 1}, "expired"),
        ({"sub": "ada", "exp": AT}, "expired"),
        ({"sub": "ada", "exp": -1}, "expired"),
        ({"sub": "ada", "nbf": AT + CLOCK_SKEW + 1}, "not valid yet"),
        ({"sub": "ada", "exp": str(int(AT) + 600)}, "'exp' is not a number"),
        ({"sub": "ada", "exp": None}, "'exp' is not a number"),
        ({"sub": "ada", "exp": True}, "'exp' is not a number"),
        ({"sub": "ada", "exp": float("inf")}, "'exp' is not a number"),
        ({"sub": "ada", "exp": float("nan")}, "'exp' is not a number"),
        ({"sub": "ada", "nbf": []}, "'nbf' is not a number"),
        ({"exp": AT + 600}, "The claim 'sub' of the token is missing"),
        ({"sub": ""}, "The claim 'sub' of the token is missing"),
        ({"sub": 5}, "The claim 'sub' of the token is missing"),
        ({"sub": ["ada"]}, "The claim 'sub' of the token is missing"),
        ({"sub": None}, "The claim 'sub' of the token is missing"),
        (["sub", "ada"], "not valid"),
        ("ada", "not valid"),
        (b"{", "not valid"),
        (b"\xff", "not valid"),
        (b"[" * 9_000, "not valid"),
        (b'{"exp": 1e999, "sub": "ada"}', "not a number"),
        (b'{"exp": ' + b"9" * 5_000 + b', "sub": "ada"}', "not valid"),
        (b'{"exp": ' + b"9" * 400 + b', "sub": "ada"}', "not a number"),
    ],
)
async def test_a_token_that_says_something_else_is_refused(given: object, said: str) -> None:
    with pytest.raises(Unauthorized, match=said):
        await judge(raw(HS, given))


@pytest.mark.parametrize(
    ("wanted", "good", "wrong"),
    [
        (
            ExpectedClaims(claim="sub", audience="shop"),
            ["shop", ["other", "shop"]],
            ["other", ["other"], [], None, 5, "shop2", {"shop": 1}],
        ),
        (
            ExpectedClaims(claim="sub", issuer="https://id.example/"),
            ["https://id.example/"],
            ["https://id.example", ["https://id.example/"], None, 5],
        ),
    ],
)
async def test_audience_and_issuer_are_looked_at_once_they_are_given(
    wanted: ExpectedClaims, good: list[Any], wrong: list[Any]
) -> None:
    verify = SharedSecret(SECRET, wanted, ManualClock(NOW))
    name = "iss" if wanted.audience is None else "aud"
    for value in good:
        assert (await verify(raw(HS, {"sub": "ada", name: value}))).external_id == "ada"
    for given in ({"sub": "ada"}, *[{"sub": "ada", name: value} for value in wrong]):
        with pytest.raises(
            Unauthorized, match=r"not from the accepted issuer|its audience is missing or different"
        ):
            await verify(raw(HS, given))


async def test_a_token_without_an_expiry_never_expires() -> None:
    verify = SharedSecret(SECRET, ExpectedClaims(claim="sub"), ManualClock(NOW + timedelta(days=10_000)))
    assert await verify(raw(HS, {"sub": "ada"})) == TokenIdentity(external_id="ada", claims={"sub": "ada"})


NOT_SIGNED_BY_US: dict[str, str] = {
    "another secret": signed(key=OTHER),
    "no signature": raw(HS, claims(), None),
    "alg none": raw({"alg": "none"}, claims(), None),
    "alg none, signed": raw({"alg": "none"}, claims()),
    "alg None": raw({"alg": "None"}, claims(), None),
    "no alg": raw({}, claims()),
    "an alg that is no text": raw({"alg": ["HS256"]}, claims()),
    "an alg that is null": raw({"alg": None}, claims()),
    "HS512": signed(key=SECRET * 2, algorithm="HS512"),
    "RS256": signed(key=rsa_key(), algorithm="RS256"),
    "an unknown alg": raw({"alg": "HS257"}, claims()),
    "crit": raw({**HS, "crit": ["exp"], "exp": 1}, claims()),
    "crit b64": raw({**HS, "crit": ["b64"], "b64": True}, claims()),
    "an empty crit": raw({**HS, "crit": []}, claims()),
    "b64 false": raw({**HS, "b64": False}, claims()),
    "a kid that is no text": raw({**HS, "kid": 1}, claims()),
    "a header that is not an object": raw([1], claims()),
    "a deep header": raw(b"[" * 9_000, claims()),
    "a header of many digits": raw(b'{"alg": ' + b"9" * 5_000 + b"}", claims()),
    "two parts": signed().rsplit(".", 1)[0],
    "four parts": signed() + ".x",
    "padding": signed() + "==",
    "a blank": signed() + " ",
    "a letter more": signed() + "A",
    "no ASCII": signed() + "ü",
    "nothing": "",
    "dots": "..",
    "words": "not a token",
    "a huge one": "A" * (MAX_TOKEN + 1),
    "a huge good one": signed(claims(more="x" * MAX_TOKEN)),
}


@pytest.mark.parametrize("token", NOT_SIGNED_BY_US.values(), ids=NOT_SIGNED_BY_US.keys())
async def test_a_token_that_is_not_signed_by_us_is_refused(token: str) -> None:
    with pytest.raises(Unauthorized) as refused:
        await judge(token)
    assert not token or token not in refused.value.message


async def test_a_token_of_which_one_letter_changed_is_refused() -> None:
    token = signed()
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(Unauthorized):
            await judge(token[:place] + other + token[place + 1 :])


async def test_nothing_is_remembered_beyond_its_time() -> None:
    clock = ManualClock(NOW)
    verify = SharedSecret(SECRET, ExpectedClaims(claim="sub"), clock)
    claims: Claims = {"sub": "ada", "exp": AT + 60}
    token = signed(claims)
    assert await verify(token) == TokenIdentity(external_id="ada", until=AT + 60, claims=claims)
    clock.advance(59)
    assert await verify(token) == TokenIdentity(external_id="ada", until=AT + 60, claims=claims)
    clock.advance(1)
    with pytest.raises(Unauthorized, match="expired"):
        await verify(token)


async def test_a_token_is_validated_in_well_under_a_millisecond() -> None:
    verify, token = SharedSecret(SECRET, ExpectedClaims(claim="sub"), ManualClock(NOW)), signed()
    best = 1.0
    for _ in range(50):
        begun = time.perf_counter()
        await verify(token)
        best = min(best, time.perf_counter() - begun)
    assert best < timedelta(milliseconds=1).total_seconds()


async def test_the_public_key_of_a_provider_is_no_shared_secret() -> None:
    """If a PEM were configured as the secret, its holder could sign: settings reject it, and so does PyJWT."""
    public: Any = pem(rsa_key())
    verify = SharedSecret(public.decode(), ExpectedClaims(claim="sub"), ManualClock(NOW))
    with pytest.raises(Unauthorized):
        await verify(raw(HS, claims(), public))
