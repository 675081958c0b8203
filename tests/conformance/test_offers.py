"""Calls on offer to outside workers are read in order, page by page, without calls that cannot be claimed."""

from collections.abc import Sequence

import pytest
from tests.play import AT, begun, committed, later, settle, token

from toolwright.core.journal.reads import Offer
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import LeaseCall, SubmitResult
from toolwright.core.threads.call import Call

pytestmark = pytest.mark.anyio

FIRST = (later(-1_000), "")


def ids(offers: Sequence[Offer]) -> list[str]:
    return [offer.call.id for offer in offers]


async def claimed(store: Store, call: Call, until: float) -> None:
    unit = LeaseCall(token=token(), at=AT, call_id=call.id, worker="ann", until=later(until))
    await committed(store, unit)


async def test_calls_on_offer_come_in_the_order_in_which_they_began(store: Store):
    drain = await begun(store)
    made = [
        drain.call("pending", id=f"call_{n}", kind="external", started_at=later(n // 2), position=n)
        for n in reversed(range(7))
    ]
    others = [
        drain.call("running", kind="external", started_at=AT, position=7),
        drain.call("pending", kind="space", started_at=AT, position=8),
        drain.call("pending", kind="external", started_at=AT, expires_at=later(10), position=9),
        drain.call("done", kind="external", started_at=AT, completed_at=AT, position=10),
    ]
    await drain.answer(*made, *others)
    read: list[str] = []
    after = FIRST
    while page := await store.offers.claimable(later(10), after=after, before=later(3), limit=2):
        assert {offer.agent for offer in page} == {"helper"}
        read += ids(page)
        last = page[-1].call
        assert last.started_at is not None
        after = (last.started_at, last.id)
    assert read == [f"call_{n}" for n in range(6)]
    await committed(store, settle(SubmitResult, "th_1", "call_0"))
    assert ids(await store.offers.claimable(later(10), after=FIRST, before=later(1))) == ["call_1"]


async def test_calls_on_offer_are_filtered_by_their_tools(store: Store):
    drain = await begun(store)
    names = ["look", "fetch", 'a "b", c', "look"]
    made = [
        drain.call("waiting", id=f"call_{n}", kind="external", name=name, started_at=AT, position=n)
        for n, name in enumerate(names)
    ]
    await drain.answer(*made)
    for asked, expected in (
        (["look"], [0, 3]),
        (["fetch", names[2]], [1, 2]),
        (["none"], []),
        (None, [0, 1, 2, 3]),
    ):
        found = await store.offers.claimable(AT, after=FIRST, before=later(1), names=asked)
        assert ids(found) == [f"call_{n}" for n in expected]


async def test_a_claimed_call_is_on_offer_again_if_it_is_repeatable_and_its_lease_is_over(store: Store):
    drain = await begun(store)
    once = drain.call("waiting", kind="external", started_at=AT)
    again = drain.call("pending", kind="external", started_at=AT, repeatable=True, position=1)
    await drain.answer(once, again)
    for call in (once, again):
        await claimed(store, call, 10)
    for seconds, expected in ((9.9, []), (10, [again.id])):
        at = later(seconds)
        assert ids(await store.offers.claimable(at, after=FIRST, before=later(1))) == expected
        assert ids(await store.offers.expired_leases(at, since=AT)) == expected
    assert await store.offers.expired_leases(later(20), since=later(10.1)) == []
    await claimed(store, again, 30)
    assert await store.offers.expired_leases(later(20), since=AT) == []
