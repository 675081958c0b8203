"""Events in memory are rendered only for their readers."""

from datetime import timedelta

import pytest
from tests.play import AT, begun, committed

from toolwright.core.journal.retention import Prune
from toolwright.core.journal.units import Result
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import EventDraft, Topic
from toolwright.testing import MemoryStore

pytestmark = pytest.mark.anyio


async def test_only_what_is_read_is_rendered() -> None:
    rendered: list[int] = []

    def draft(number: int) -> EventDraft:
        def render() -> JSONObject:
            rendered.append(number)
            return {"number": number}

        return EventDraft.lazy("tool.progress", render)

    store = MemoryStore(lambda _: None)
    drain = await begun(store, "th_1")
    for first in range(0, 40, 4):
        unit = drain.unit(Result, events=tuple(draft(number) for number in range(first, first + 4)))
        await committed(store, unit)
        drain.moved_by(unit)
    thread, run = Topic(kind="thread", id="th_1"), Topic(kind="run", id=drain.run.id)
    _, last = await store.bounds(thread)
    assert await store.bounds(run) == await store.bounds(thread)
    assert (await store.bounds(Topic(kind="run", id="run_of_nobody")), rendered) == ((0, 0), [])
    await store.commit(Prune(token="p1", at=AT, before=AT - timedelta(days=1), limit=5))
    assert rendered == []
    page = await store.events(thread, after=last - 6, limit=3)
    assert [event.payload["number"] for event in page] == [34, 35, 36]
    assert {*rendered} <= {*range(32, 40)}  # of the units on the page
    told = [event.payload["number"] for event in await store.events(run, after=last - 2)]
    assert told == [38, 39]


async def test_the_oldest_are_taken_away_also_in_the_middle_of_a_unit() -> None:
    store = MemoryStore(lambda _: None)
    drain = await begun(store, "th_1")
    thread = Topic(kind="thread", id="th_1")
    before = [event.n for event in await store.events(thread)]
    drafts = tuple(EventDraft.lazy("tool.progress", _payload, number) for number in range(4))
    unit = drain.unit(Result, events=drafts)
    await drain.do(unit)
    await drain.end()
    prune = Prune(token="p1", at=AT, before=AT + timedelta(days=1), limit=len(before) + 1)
    answer = await store.commit(prune)
    assert getattr(answer, "count", None) == len(before) + 1
    rest = await store.events(thread)
    assert [event.payload for event in rest] == [{"number": number} for number in (1, 2, 3)]
    assert await store.bounds(thread) == (rest[0].n, rest[-1].n)


def _payload(number: int) -> JSONObject:
    return {"number": number}
