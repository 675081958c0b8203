"""Cookies of the console's sessions."""

import asyncio
import hmac
from collections.abc import Sequence
from datetime import datetime

import httpx2
import pytest
from cryptography.fernet import Fernet

import toolwright as tw
from toolwright import testing
from toolwright.adapters.cipher import FernetCipher
from toolwright.adapters.system import new_id
from toolwright.core.env.env import derived_key
from toolwright.core.json_value import JSON
from toolwright.runtime.env import Environment, Keys
from toolwright.runtime.spaces.entities import MAX_EXTERNAL_ID
from toolwright.testing import ManualClock, MemoryStore
from toolwright.web.auth.access import SERVICE, Access, Caller, ServiceKey, SignedCallers
from toolwright.web.console.console import Console
from toolwright.web.console.sign_in import COOKIE, MAX_COOKIE, Session, Sessions
from toolwright.web.gateway import create_gateway
from toolwright.web.options import GatewayOptions

pytestmark = pytest.mark.anyio

ALL = "key-with-all-the-rights"


def sessions_of(
    clock: ManualClock, entries: Sequence[str] = (f"main(all)={ALL}",), keys: Sequence[bytes] = (b"key",)
) -> Sessions:
    """Return the sessions of a server with these secret keys, signed by `keys`."""

    async def signing(purpose: str) -> Sequence[bytes]:
        return [derived_key(each, purpose) for each in keys]

    access = Access(tuple(entries), ())
    return Sessions(clock, lambda purpose: SignedCallers(access, signing, purpose))


async def test_a_session_keeps_the_roles_of_its_person_if_they_fit_into_a_cookie() -> None:
    sessions = sessions_of(ManualClock())
    claims: dict[str, JSON] = {"about": "x" * 2_000}
    for roles, kept in ((("finance", "ö"), ("finance", "ö")), (tuple("r" * 100 for _ in range(50)), ())):
        caller = Caller(kind="person", entity_id="ent_1", external_id="ada", claims=claims, roles=roles)
        cookie = await sessions.seal(sessions.begin(caller))
        session = await sessions.read(cookie)
        assert len(cookie) <= MAX_COOKIE
        assert session is not None and session.caller.roles == kept


async def test_a_session_has_the_rights_that_its_key_has_now_and_ends_with_it() -> None:
    clock = ManualClock()
    one = sessions_of(clock)
    cookie = await one.seal(one.begin(ServiceKey.read(f"main(all)={ALL}").caller))
    again = await one.read(cookie)
    assert again is not None and again.caller.scope == "all"
    renamed = await sessions_of(clock, [ALL]).read(cookie)
    assert renamed is not None and renamed.caller.name is None
    for entries in (
        [f"main(read)={ALL}"],
        ["main(all)=another-key-of-that-name"],
        ["m(metrics)=some-key-or-other"],
    ):
        assert await sessions_of(clock, entries).read(cookie) is None
    assert await sessions_of(clock, []).read(cookie) is None


SCOPED = (ALL, "scraper(metrics)=sk-of-the-scraper", "reader(read)=sk-of-the-reader")
PAGES = ("/console/", "/console/runs", "/console/agents", "/console/files/thr_1/a.txt", "/console/_nicegui/x")


@pytest.mark.parametrize("key", ["sk-of-the-scraper", "sk-of-the-reader"])
async def test_a_key_without_all_rights_opens_no_page_and_makes_no_link(key: str) -> None:
    options = GatewayOptions(clock=ManualClock(), secret_keys=SCOPED, console=Console)
    async with testing.runtime(tw.App()) as rt:
        transport = httpx2.ASGITransport(create_gateway(rt, options), client=("127.0.0.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"x-secret-key": key}
            assert (await client.post("/console/links", headers=headers)).status_code == 403
            entered = await client.post("/console/sign-in", data={"secret_key": key})
            assert entered.status_code == 401 and "set-cookie" not in entered.headers
            issued = (await client.post("/api/stream-tokens", headers=headers)).json()
            token = str(issued.get("token", "none"))
            assert (await client.get(f"/console/sign-in?link={token}")).status_code == 401
            for page in PAGES:
                sent = await client.get(page, headers={**headers, "cookie": f"{COOKIE}={token}"})
                assert sent.status_code == 401, page
            entered = await client.post("/console/sign-in", data={"secret_key": ALL})
            assert entered.status_code == 303


async def test_who_holds_a_secret_key_can_forge_no_session() -> None:
    clock = ManualClock()
    entry, key = f"m(metrics)={ALL}", ALL
    server = sessions_of(clock, [entry])
    for known in (key, entry):
        forger = sessions_of(clock, [], keys=(known.encode(),))
        forged = await forger.seal(
            Session(id="s", caller=SERVICE, begun=0, until=clock.now().timestamp() + 60)
        )
        assert await server.read(forged) is None
        seed = hmac.digest(known.encode(), b"toolwright console session", "sha256")
        body, _, _ = forged.partition(".")
        assert await server.read(f"{body}.{hmac.new(seed, body.encode(), 'sha256').hexdigest()}") is None


async def test_keys_rotate_as_those_that_encrypt_do() -> None:
    clock = ManualClock()
    caller = ServiceKey.read(f"main(all)={ALL}").caller
    before, during, after = (
        sessions_of(clock, keys=keys) for keys in ((b"old",), (b"new", b"old"), (b"new",))
    )
    old = await before.seal(before.begin(caller))
    assert await during.read(old) is not None and await after.read(old) is None
    new = await during.seal(during.begin(caller))
    assert await after.read(new) is not None and await before.read(new) is None


async def test_without_encryption_keys_all_processes_sign_with_one_random_key_of_the_journal() -> None:
    store = MemoryStore(lambda _: None)
    parts = (store, Environment(FernetCipher([])), ManualClock())
    one, two = (Keys(*parts, new_id=new_id) for _ in range(2))
    [[first], [second]] = await asyncio.gather(one.signing("x"), two.signing("x"))
    assert first == second and len(first) == 32
    assert [first] != await two.signing("y")
    keyed = Keys(store, Environment(FernetCipher([Fernet.generate_key().decode()])), ManualClock(), new_id)
    assert await keyed.signing("x") != [first]


async def test_a_link_signs_in_once_at_any_process_with_the_same_keys() -> None:
    used: set[str] = set()

    async def use_once(key: str, _: datetime) -> bool:
        is_new = key not in used
        used.add(key)
        return is_new

    clock = ManualClock()
    one, two, other = sessions_of(clock), sessions_of(clock), sessions_of(clock, keys=(b"another",))
    caller = Caller(kind="person", entity_id="ent_1", external_id="ada")
    link, _ = await one.links.issue(caller)
    assert await other.links.redeem(link, use_once) is None
    assert await one.read(link) is None  # it is not a cookie
    assert await two.links.redeem(link, use_once) == caller
    assert await one.links.redeem(link, use_once) is None
    late, expires_at = await one.links.issue(caller)
    clock.advance((expires_at - clock.now()).total_seconds())
    assert await two.links.redeem(late, use_once) is None


@pytest.mark.parametrize("letter", ["a", "é", "名", "🎉"])
async def test_a_person_with_the_longest_name_in_any_script_can_sign_in(letter: str) -> None:
    sessions = sessions_of(ManualClock())
    caller = Caller(kind="person", entity_id="ent_1", external_id=letter * MAX_EXTERNAL_ID)
    session = sessions.begin(caller)
    back = await sessions.read(await sessions.seal(session))
    assert back is not None
    assert (back.id, back.caller.user_ids) == (session.id, caller.user_ids)


async def test_the_claims_of_a_person_are_kept_with_their_session_as_far_as_a_cookie_holds_them() -> None:
    sessions = sessions_of(ManualClock())
    claims: dict[str, JSON] = {
        "iss": "i",
        "exp": 5,
        "role": ["admin"],
        "long": "x" * 5_000,
        **{f"n{n}": "é" * 100 for n in range(50)},
    }
    caller = Caller(kind="person", entity_id="ent_1", external_id="ada", claims=claims)
    cookie = await sessions.seal(sessions.begin(caller))
    back = await sessions.read(cookie)
    assert len(cookie) < MAX_COOKIE
    assert back is not None
    kept = back.caller.claims
    assert kept["role"] == ["admin"]
    assert len(kept) > 5
    assert not {"iss", "exp", "long"} & {*kept}
    assert back.caller.claims == {name: claims[name] for name in kept}
