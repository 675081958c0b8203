"""Cookies of the console's sessions."""

from datetime import datetime

import pytest

from toolwright.core.json_value import JSON
from toolwright.runtime.spaces.entities import LONGEST_EXTERNAL_ID
from toolwright.testing import ManualClock
from toolwright.web.auth.access import Caller
from toolwright.web.console.sign_in import LONGEST_COOKIE, Sessions

pytestmark = pytest.mark.anyio


async def test_a_link_signs_in_once_at_any_process_with_the_same_keys() -> None:
    used: set[str] = set()

    async def use_once(key: str, _: datetime) -> bool:
        is_new = key not in used
        used.add(key)
        return is_new

    clock = ManualClock()
    one, two, other = Sessions(clock, ["sk"]), Sessions(clock, ["sk"]), Sessions(clock, ["another"])
    caller = Caller(kind="person", entity_id="ent_1", external_id="ada")
    link, _ = one.links.issue(caller)
    assert await other.links.redeem(link, use_once) is None
    assert one.read(link) is None  # it is not a cookie
    assert await two.links.redeem(link, use_once) == caller
    assert await one.links.redeem(link, use_once) is None
    late, expires_at = one.links.issue(caller)
    clock.advance((expires_at - clock.now()).total_seconds())
    assert await two.links.redeem(late, use_once) is None


@pytest.mark.parametrize("letter", ["a", "é", "名", "🎉"])
def test_a_person_with_the_longest_name_in_any_script_can_sign_in(letter: str) -> None:
    sessions = Sessions(ManualClock(), ["sk"])
    caller = Caller(kind="person", entity_id="ent_1", external_id=letter * LONGEST_EXTERNAL_ID)
    session = sessions.begin(caller)
    back = sessions.read(sessions.seal(session))
    assert back is not None
    assert (back.id, back.caller.user_ids) == (session.id, caller.user_ids)


def test_the_claims_of_a_person_are_kept_with_their_session_as_far_as_a_cookie_holds_them() -> None:
    sessions = Sessions(ManualClock(), ["sk"])
    claims: dict[str, JSON] = {
        "iss": "i",
        "exp": 5,
        "role": ["admin"],
        "long": "x" * 5_000,
        **{f"n{n}": "é" * 100 for n in range(50)},
    }
    caller = Caller(kind="person", entity_id="ent_1", external_id="ada", claims=claims)
    cookie = sessions.seal(sessions.begin(caller))
    back = sessions.read(cookie)
    assert len(cookie) < LONGEST_COOKIE
    assert back is not None
    kept = back.caller.claims
    assert kept["role"] == ["admin"]
    assert len(kept) > 5
    assert not {"iss", "exp", "long"} & {*kept}
    assert back.caller.claims == {name: claims[name] for name in kept}
