"""Events of spaces on Postgres: one sequence without gaps, and no writer waits for a writer of another space."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from tests.conformance.test_spaces import ALL, act, made, message, says, space
from tests.play import committed, token
from tests.postgres_server import fresh_database

from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import Connection, connect
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed
from toolwright.core.threads.event import Event, Topic

pytestmark = pytest.mark.anyio

LEFT = (
    "INSERT INTO unnumbered_events (unit, i, space_id, type, payload, at)"
    " VALUES ($1, 0, $2, 'space.message', '{}', 0)"
)
HELD = "SELECT value FROM counters WHERE name = 'space_events' FOR UPDATE"


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    async with fresh_database() as one:
        yield one


@pytest.fixture
async def other(url: str) -> AsyncGenerator[Connection]:
    """A session of another process."""
    connection = await connect(url)
    yield connection
    await connection.close()


class Told:
    """The notifications that a bus receives about spaces."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def publish(self, events: Sequence[Event]) -> None:
        self.events += [event for event in events if event.space_id is not None]

    @property
    def numbers(self) -> list[int | None]:
        return [event.n for event in self.events]


async def spaces(store: Store, count: int) -> None:
    await committed(store, act(*[made(space(f"spc_{n}")) for n in range(count)]))


async def test_a_unit_that_is_still_open_keeps_no_other_space_waiting(url: str, other: Connection) -> None:
    told = Told()
    store = await open_postgres(url, told.publish)
    await spaces(store, 2)
    await other.execute("BEGIN")
    await other.execute(LEFT, token(), "spc_0")  # published in one space, not committed yet
    await other.execute("UPDATE spaces SET seq = seq + 1 WHERE id = 'spc_0'")
    await asyncio.wait_for(committed(store, act(says(message("spc_1")))), 10)
    assert [(event.space_id, event.n) for event in await store.events(ALL)] == [("spc_1", 1)]
    await other.execute("COMMIT")
    await committed(store, act(says(message("spc_1"))))
    assert [(event.space_id, event.n) for event in await store.events(ALL)] == [
        ("spc_1", 1), ("spc_0", 2), ("spc_1", 3),
    ]  # fmt: skip
    assert told.numbers == [1, 2, 3]
    await store.close()


async def test_writers_of_two_processes_leave_no_gap_and_keep_the_order_of_each_space(url: str) -> None:
    buses = [Told(), Told()]
    stores = [await open_postgres(url, bus.publish) for bus in buses]
    await spaces(stores[0], 5)

    async def write(store: Store, number: int) -> None:
        for _ in range(6):
            await committed(
                store, act(says(message(f"spc_{number % 5}")), says(message(f"spc_{number % 5}")))
            )

    await asyncio.gather(*(write(stores[n % 2], n) for n in range(20)))
    events = await stores[0].events(ALL)
    assert [event.n for event in events] == [*range(1, 241)]
    for number in range(5):
        of_space = await stores[1].events(Topic(kind="space", id=f"spc_{number}"))
        assert [event.payload["message"]["seq"] for event in of_space] == [*range(1, 49)]  # type: ignore[index,call-overload]  # a message's JSON
    for store, bus in zip(stores, buses, strict=True):
        await committed(store, act(says(message("spc_0"))))
        assert bus.numbers == [*range(1, len(bus.numbers) + 1)]  # of both processes, each once, in order
        await store.close()


async def test_a_commit_does_not_read_all_that_others_have_told_meanwhile(url: str) -> None:
    told = Told()
    mine, others = await open_postgres(url, told.publish), await open_postgres(url, Told().publish)
    await spaces(mine, 1)
    await asyncio.gather(
        *(committed(others, act(*[says(message("spc_0")) for _ in range(30)])) for _ in range(20))
    )
    await committed(mine, act(says(message("spc_0"))))
    assert told.numbers == [1, *range(102, 602)]  # the next one, so that the gap is visible, and the newest
    for store in (mine, others):
        await store.close()


async def test_what_a_dead_process_has_left_is_numbered_when_a_journal_is_opened(
    url: str, other: Connection
) -> None:
    store = await open_postgres(url, Told().publish)
    await spaces(store, 1)
    await store.close()
    await other.execute(LEFT, "killed behind its commit", "spc_0")
    told = Told()
    store = await open_postgres(url, told.publish)
    assert [event.n for event in await store.events(ALL)] == [1]
    assert told.numbers == [1]
    await store.close()


async def test_a_commit_is_answered_although_its_events_cannot_be_numbered_yet(
    url: str, other: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    store = await open_postgres(url, told.publish, attempt=1.5, statement=1.0)
    await spaces(store, 1)
    await other.execute("BEGIN")
    await other.execute(HELD)
    answer = await store.commit(act(says(message("spc_0"))))
    assert isinstance(answer, Committed)
    assert answer.seq == 1
    assert "could not be numbered" in caplog.text
    assert await store.events(ALL) == []
    await other.execute("ROLLBACK")
    await committed(store, act(says(message("spc_0"))))
    assert [event.n for event in await store.events(ALL)] == told.numbers == [1, 2]
    await store.close()


async def test_a_unit_that_is_tried_again_tells_once(url: str) -> None:
    told = Told()
    store = await open_postgres(url, told.publish)
    await spaces(store, 1)
    unit = act(says(message("spc_0")), says(message("spc_0")))
    first = await store.commit(unit)
    assert await store.commit(unit) == first
    assert told.numbers == [1, 2]
    assert len(await store.events(ALL)) == 2
    await store.close()
