"""Units committed together on Postgres: one transaction for many threads, and a failed unit affects no other."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.play import Drain, begun, committed, draft, said
from tests.postgres_server import fresh_database
from tests.store.pg_proxy import Proxy
from tests.store.test_postgres import blocked_backend
from tests.store.test_statements import CountedPool

from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import Limits, Pools, connect, connect_pools
from toolwright.adapters.store.postgres.driver import MAX_GROUPS, MAX_UNITS, PostgresDriver
from toolwright.adapters.store.postgres.unit import MAX_CHARACTERS
from toolwright.adapters.store.store import SqlStore
from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, Conflict, Result, Unit
from toolwright.core.threads.event import Event, Topic

pytestmark = pytest.mark.anyio

MANY = 20


@asynccontextmanager
async def counted(url: str, **limits: Any) -> AsyncGenerator[tuple[Store, list[str]]]:
    """A store, and the statements of its sessions for commits."""
    chosen = Limits(**limits)
    pools = await connect_pools(url, chosen)
    commits = CountedPool(pools.commits)
    driver = PostgresDriver(Pools(commits, pools.reads), lambda _: None, chosen)
    await driver.open()
    store = SqlStore(driver)
    yield store, commits.asked
    await store.close()


async def threads(store: Store, count: int = MANY) -> list[Drain]:
    """Create threads with a run each."""
    return [await begun(store, f"th_{number}") for number in range(count)]


def step(drain: Drain, text: str = "sunny") -> Result:
    """Return a unit that has the same statement for every thread."""
    return drain.unit(Result, messages=(said(text),), events=(draft("message", text=text),))


async def all_rows(store: Store, units: Sequence[Unit]) -> list[Any]:
    """Return the outcomes, or errors, of units that are submitted in one iteration of the loop."""
    return await asyncio.gather(*(store.commit(unit) for unit in units), return_exceptions=True)


async def contents(store: Store, drain: Drain) -> list[str]:
    return [message.content for message in await store.messages(drain.thread_id)]


async def test_units_of_many_threads_are_committed_by_one_statement():
    async with fresh_database() as url, counted(url) as (store, asked):
        drains = await threads(store)
        asked.clear()
        outcomes = await all_rows(store, [step(drain) for drain in drains])
        assert asked == ["fetchmany"]
        assert [outcome.run_id for outcome in outcomes] == [drain.run.id for drain in drains]
        for drain in drains:
            assert await contents(store, drain) == ["sunny"]
            assert [event.n for event in await store.events(Topic(kind="thread", id=drain.thread_id))] == [
                1,
                2,
            ]


async def test_a_group_has_a_bound_and_what_is_more_forms_the_next():
    async with fresh_database() as url, counted(url) as (store, asked):
        drains = await threads(store, MAX_UNITS + 1)
        asked.clear()
        await all_rows(store, [step(drain) for drain in drains])
        assert asked == ["fetchmany", "fetchval"]


async def test_units_that_arrive_while_all_groups_are_on_their_way_wait_for_the_next():
    async with fresh_database() as url, counted(url) as (store, asked):
        drains = await threads(store, MAX_GROUPS + 3)
        asked.clear()
        commits: list[asyncio.Task[Committed | Conflict]] = []
        for number, drain in enumerate(drains):
            commits.append(asyncio.create_task(store.commit(step(drain))))
            while number < MAX_GROUPS and len(asked) <= number:  # noqa: ASYNC110 - a session sends no notification
                await asyncio.sleep(0)
        await asyncio.gather(*commits)
        assert sorted(asked) == ["fetchmany", *["fetchval"] * MAX_GROUPS]


@pytest.mark.parametrize("place", [0, MANY // 2, MANY - 1])
async def test_a_unit_whose_guard_fails_takes_no_other_with_it(place: int):
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drains = await threads(store)
        units = [step(drain) for drain in drains]
        units[place] = replace(units[place], epoch=units[place].epoch + 1)
        outcomes = await all_rows(store, units)
        assert outcomes.pop(place) == Conflict(guard="fence")
        assert {type(outcome) for outcome in outcomes} == {Committed}
        for number, drain in enumerate(drains):
            assert await contents(store, drain) == ([] if number == place else ["sunny"])
        await store.close()


async def test_a_unit_that_waits_for_a_lock_holds_up_no_other():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drains = await threads(store)
        holder, watcher = await connect(url), await connect(url)
        await holder.execute("BEGIN")
        await holder.execute("UPDATE threads SET posted = posted WHERE id = 'th_3'")
        commits = [asyncio.create_task(store.commit(step(drain))) for drain in drains]
        others = [commit for number, commit in enumerate(commits) if number != 3]
        assert {type(outcome) for outcome in await asyncio.gather(*others)} == {Committed}
        assert {type(outcome) for outcome in await all_rows(store, [step(moved(drains[0]))])} == {Committed}
        await blocked_backend(watcher)
        assert not commits[3].done()
        await holder.execute("COMMIT")
        assert isinstance(await commits[3], Committed)
        assert await contents(store, drains[3]) == ["sunny"]
        await store.close()
        await holder.close()
        await watcher.close()


def moved(drain: Drain) -> Drain:
    """Return the drain after one `step`."""
    drain.moved_by(step(drain))
    return drain


async def test_one_that_waits_for_a_lock_alone_waits_as_long_as_it_takes():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None, lock=0.01)
        drain = await begun(store)
        holder, watcher = await connect(url), await connect(url)
        await holder.execute("BEGIN")
        await holder.execute("UPDATE threads SET posted = posted")
        commit = asyncio.create_task(store.commit(step(drain)))
        for _ in range(20):  # many times the limit
            await asyncio.sleep(0.01)
            await blocked_backend(watcher)
        await holder.execute("COMMIT")
        assert isinstance(await commit, Committed)
        await store.close()
        await holder.close()
        await watcher.close()


async def test_each_unit_of_a_group_whose_answer_is_lost_is_there_once():
    published: list[Event] = []
    async with fresh_database() as url, Proxy(url) as proxy:
        store = await open_postgres(proxy.url, published.extend)
        drains = await threads(store)
        published.clear()
        units = [step(drain) for drain in drains]
        proxy.lose_answer_to = units[-1].token.encode()
        outcomes = await all_rows(store, units)
        assert proxy.lost == 1
        assert [outcome.run_id for outcome in outcomes] == [drain.run.id for drain in drains]
        for drain in drains:
            assert await contents(store, drain) == ["sunny"]
        assert {event.thread_id for event in published} == {drain.thread_id for drain in drains}
        await store.close()


async def test_a_group_on_a_database_that_goes_away_is_there_once_after_it_is_back():
    async with fresh_database() as url, Proxy(url) as proxy:
        patient = await open_postgres(url, lambda _: None)
        drains = await threads(patient)
        units = [step(drain) for drain in drains]
        hasty = await open_postgres(proxy.url, lambda _: None, patience=0.5)
        proxy.lose_answer_to, proxy.then_down = units[-1].token.encode(), True
        assert {type(outcome) for outcome in await all_rows(hasty, units)} == {StoreError}
        await hasty.close()
        assert {type(outcome) for outcome in await all_rows(patient, units)} == {Committed}
        for drain in drains:
            assert await contents(patient, drain) == ["sunny"]
        await patient.close()


async def test_a_unit_that_the_database_refuses_is_refused_alone():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drains = await threads(store)
        units = [step(drain) for drain in drains]
        units[7] = replace(units[7], run=replace(units[7].run, step_count=2**63))
        outcomes = await all_rows(store, units)
        assert isinstance(outcomes.pop(7), Unwritable)
        assert {type(outcome) for outcome in outcomes} == {Committed}
        assert await contents(store, drains[7]) == []
        await store.close()


async def test_a_large_unit_is_committed_alone():
    async with fresh_database() as url, counted(url) as (store, asked):
        drains = await threads(store, 3)
        asked.clear()
        units = [step(drains[0], "x" * MAX_CHARACTERS), step(drains[1]), step(drains[2])]
        assert {type(outcome) for outcome in await all_rows(store, units)} == {Committed}
        assert sorted(asked) == ["fetchmany", "fetchval"]


async def test_units_of_one_thread_are_committed_in_their_order():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drains = await threads(store, 3)
        units: list[Unit] = []
        for number in range(5):
            for drain in drains:
                unit = step(drain, str(number))
                drain.moved_by(unit)
                units.append(unit)
        assert {type(outcome) for outcome in await all_rows(store, units)} == {Committed}
        for drain in drains:
            assert await contents(store, drain) == ["0", "1", "2", "3", "4"]
        await store.close()


async def test_a_unit_whose_caller_has_timed_out_is_not_committed_later():
    async with fresh_database() as url, Proxy(url) as proxy:
        patient = await open_postgres(url, lambda _: None)
        drain = await begun(patient)
        first = step(drain, "first")
        drain.moved_by(first)
        hasty = await open_postgres(proxy.url, lambda _: None, attempt=0.3, patience=0.3)
        proxy.freeze()
        outcomes = await all_rows(hasty, [first, step(drain, "second")])
        assert [type(outcome) for outcome in outcomes] == [StoreError, StoreError]
        proxy.thaw()
        await hasty.close()
        await committed(patient, first)
        assert await contents(patient, drain) == ["first"]
        await patient.close()


async def test_a_thousand_units_that_cannot_be_written_do_not_keep_their_thread():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drain = await begun(store)
        bad = replace(step(drain), events=(draft("message", n=float("nan")),))
        outcomes = await all_rows(store, [step(drain), *[bad] * 1_500])
        assert isinstance(outcomes[0], Committed)
        assert {type(outcome) for outcome in outcomes[1:]} == {Unwritable}
        await store.close()


async def test_a_store_that_is_closed_commits_what_was_handed_over():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drains = await threads(store)
        commits = [asyncio.create_task(store.commit(step(drain))) for drain in drains]
        await asyncio.sleep(0)
        await store.close()
        assert {type(await commit) for commit in commits} == {Committed}
        with pytest.raises(StoreError, match="closed"):
            await store.commit(step(drains[0]))


async def test_a_follower_that_fails_takes_no_other_unit_of_the_group_with_it():
    def publish(events: Sequence[Event]) -> None:
        if events[0].thread_id == "th_1":
            raise RuntimeError("no follower")

    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None)
        drains = await threads(store, 3)
        failing = await open_postgres(url, publish)
        outcomes = await all_rows(failing, [step(drain) for drain in drains])
        assert [type(outcome) for outcome in outcomes] == [Committed, RuntimeError, Committed]
        drains[1].moved_by(step(drains[1]))
        assert [type(each) for each in await all_rows(failing, [step(drains[1])])] == [RuntimeError]
        await failing.close()
        await store.close()


async def test_reads_and_commits_wait_for_a_migration_that_locks_their_tables():
    async with fresh_database() as url:
        store = await open_postgres(url, lambda _: None, lock=0.01)
        drain = await begun(store)
        known = step(drain, "known")
        drain.moved_by(known)
        await committed(store, known)
        holder, watcher = await connect(url), await connect(url)
        await holder.execute("BEGIN")
        await holder.execute("LOCK TABLE threads, commits IN ACCESS EXCLUSIVE MODE")
        waiting: list[asyncio.Task[Any]] = [
            asyncio.create_task(store.thread("th_1")),
            asyncio.create_task(store.commit(step(drain, "new"))),
            asyncio.create_task(store.commit(known)),  # is looked up by its token
        ]
        for _ in range(20):  # many times the limit
            await asyncio.sleep(0.01)
            await blocked_backend(watcher)
        assert not any(each.done() for each in waiting)
        await holder.execute("COMMIT")
        thread, new, again = await asyncio.gather(*waiting)
        assert thread.id == "th_1"
        assert [type(outcome) for outcome in (new, again)] == [Committed, Committed]
        assert await contents(store, drain) == ["known", "new"]
        await store.close()
        await holder.close()
        await watcher.close()
