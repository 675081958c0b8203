"""Nodes of a cluster on one journal: each thread is leased by one of them, even if others fail."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit import until
from tests.motor.rig import Rig, leased
from tests.postgres_server import fresh_database
from tests.store.pg_proxy import Proxy
from toolwright.adapters.motor import leases as motor_module
from toolwright.adapters.motor.leases import LeaseMotor
from toolwright.adapters.store.postgres import driver as driver_module
from toolwright.adapters.store.postgres import leases as leases_module
from toolwright.adapters.store.postgres.connection import FAULTS, Connection, connect
from toolwright.adapters.store.postgres.leases import PostgresLeases
from toolwright.adapters.store.postgres.locks import PostgresLock, look_for_executors
from toolwright.adapters.store.postgres.opening import upgrade_postgres
from toolwright.adapters.store.schema import HEAD
from toolwright.adapters.system import ClusterClock, new_id
from toolwright.core.errors import DefinitionError, StoreError
from toolwright.core.journal.agent_effects import SetTimer
from toolwright.core.journal.units import Apply, Claim, Conflict
from toolwright.core.ports import Drain, Verdict
from toolwright.core.value import changed
from toolwright.runtime.timers import Timers

pytestmark = pytest.mark.anyio

TTL = 1.0  # seconds


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    async with fresh_database() as made:
        yield made


def stop_heart(rig: Rig) -> None:
    """Stop the heartbeats of the node."""
    assert rig.leases is not None
    rig.leases._ending.set()  # pyright: ignore[reportPrivateUsage]  # nothing else stops only the heartbeats


async def test_nodes_share_the_threads_and_none_is_drained_twice(url: str) -> None:
    async with leased(url, concurrency=5) as one, leased(url, concurrency=5) as two:

        async def take_a_moment(_: str) -> None:
            await asyncio.sleep(0.005)

        one.during = two.during = take_a_moment
        names = [f"t{number}" for number in range(200)]
        for name in names:
            await one.thread(name)
            await one.post(name)

        async def all_drained() -> bool:
            return len(one.drained) + len(two.drained) >= len(names)

        await until(all_drained)
        assert Counter(one.drained + two.drained) == Counter(names)
        assert one.drained and two.drained


async def test_threads_of_a_stalled_node_are_taken_by_the_others(url: str) -> None:
    async with leased(url, ttl=TTL) as frozen, leased(url, ttl=TTL) as other:
        held = asyncio.Event()

        async def hang(_: str) -> None:
            held.set()
            await asyncio.Event().wait()

        frozen.during = hang
        await frozen.thread("a")
        other.motor._concurrency = 0  # type: ignore[attr-defined]  # it takes nothing yet
        await frozen.send("a")
        await held.wait()
        other.motor._concurrency = 100  # type: ignore[attr-defined]
        stop_heart(frozen)
        frozen.motor._main.cancel()  # type: ignore[attr-defined]  # its process is stalled
        await other.until(lambda: other.drained == ["a"])
        assert frozen.drained == []


async def test_a_process_that_stopped_within_a_statement_keeps_no_lock(url: str) -> None:
    async with leased(url, ttl=TTL) as rig:
        await rig.thread("a")
        frozen = await connect(url)
        await send_without_its_end(frozen, "UPDATE threads SET posted = posted + 1 WHERE id = 'a'")
        await rig.send("a")  # waits for the lock of the thread
        await rig.until(lambda: rig.drained == ["a"])
        with pytest.raises(FAULTS):
            await frozen.fetchval("SELECT 1")
        frozen.terminate()


async def send_without_its_end(session: Any, query: str) -> None:
    """Let the server execute the statement, but drop the message (Sync) that commits it, as a stopped process does."""

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + (len(body) + 4).to_bytes(4, "big") + body

    parse, bind = message(b"P", b"\0" + query.encode() + b"\0\0\0"), message(b"B", bytes(8))
    transport: asyncio.WriteTransport = session._transport
    transport.write(parse + bind + message(b"E", bytes(5)) + message(b"H", b""))


async def test_a_node_without_heartbeats_stops_its_drains_and_joins_again(url: str) -> None:
    async with leased(url, ttl=TTL) as rig:
        assert rig.leases is not None
        stopped, first = asyncio.Event(), rig.leases.node

        async def hang(_: str) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.set()
                raise

        rig.during = hang
        await rig.thread("a")
        await rig.send("a")
        stop_heart(rig)
        async with asyncio.timeout(30):
            await stopped.wait()
        rig.during = _nothing

        async def has_joined() -> bool:
            return rig.leases is not None and rig.leases.held and rig.leases.node != first

        await until(has_joined)


async def _nothing(_: str) -> None:
    """Do no work."""


@pytest.mark.outage
async def test_a_node_that_is_cut_off_from_the_database_stops_before_another_takes_its_threads(
    url: str,
) -> None:
    async with (
        Proxy(url) as proxy,
        leased(proxy.url, ttl=4 * TTL) as lonely,
        leased(url, ttl=4 * TTL) as other,
    ):
        order, begun = list[str](), asyncio.Event()

        async def hang(_: str) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                order.append("stopped")

        async def note(_: str) -> None:
            order.append("taken")

        lonely.during, other.during = hang, note
        await lonely.thread("a")
        other.motor._concurrency = 0  # type: ignore[attr-defined]  # it takes nothing yet
        await lonely.send("a")
        await begun.wait()
        other.motor._concurrency = 100  # type: ignore[attr-defined]
        proxy.freeze()  # no more packets pass
        await other.until(lambda: other.drained == ["a"])
        assert order == ["stopped", "taken"]
        proxy.thaw()
        lonely.during = _nothing

        async def has_joined() -> bool:
            return lonely.motor.driving

        await until(has_joined)


async def test_a_blocked_event_loop_keeps_its_threads_for_a_while(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A node that a busy machine holds up for longer than its TTL would have to join again, on the blocked loop.
    async with leased(url, ttl=10 * TTL) as blocked:
        leases = blocked.leases
        assert leases is not None
        beaten, until = leases._beaten, time.monotonic() + 30  # pyright: ignore[reportPrivateUsage]
        while leases._beaten == beaten and time.monotonic() < until:  # pyright: ignore[reportPrivateUsage]
            time.sleep(0.05)  # noqa: ASYNC251 - as a blocking tool; heartbeats run in a separate thread
        assert leases._beaten > beaten  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr("toolwright.adapters.store.postgres.leases.HUNG", 0.2)
        monkeypatch.setattr(leases, "_ttl", TTL)
        until = time.monotonic() + 30
        while leases.held and time.monotonic() < until:
            time.sleep(0.05)  # noqa: ASYNC251 - for too long
        assert not leases.held


async def test_a_node_that_lost_its_lease_begins_no_run(url: str) -> None:
    async with leased(url) as rig:
        assert rig.leases is not None
        await rig.motor.stop(0.0)
        await rig.thread("a")
        await rig.post("a")
        view = await rig.store.view("a")
        assert view is not None and view.run is not None
        node, other = PostgresLeases(url), PostgresLeases(url)
        assert await node.acquire() and await other.acquire()
        try:
            assert [wake.thread_id for wake in (await node.claim((), 5))[0]] == ["a"]
            claim = Claim(
                token=new_id("unit"), at=rig.clock.now(), thread_id="a", epoch=view.thread.epoch,
                seq=view.thread.seq, run=changed(view.run, status="running"), node=other.node,
            )  # fmt: skip
            refused = await rig.store.commit(claim)
            assert isinstance(refused, Conflict) and refused.guard == "lease"
            taken = await rig.store.commit(changed(claim, token=new_id("unit"), node=node.node))
            assert not isinstance(taken, Conflict)
        finally:
            await node.release()
            await other.release()


async def test_a_node_that_has_just_joined_takes_no_other_for_dead(url: str) -> None:
    admin = await connect(url)
    await leave_a_lease(url, admin)
    leases, began = PostgresLeases(url, ttl=2 * TTL), time.monotonic()
    assert await leases.acquire()
    try:
        await until(lambda: is_free(admin))
        assert time.monotonic() - began >= 2 * TTL
    finally:
        await leases.release()
        await admin.close()


async def test_right_after_an_outage_no_node_takes_the_others_for_dead(url: str) -> None:
    admin = await connect(url)
    async with Proxy(url) as proxy:
        await leave_a_lease(url, admin)
        leases = PostgresLeases(proxy.url, ttl=2 * TTL)
        assert await leases.acquire()
        try:
            await until(lambda: is_free(admin))  # by a node that has sent heartbeats for a while
            proxy.freeze()
            await until(lambda: is_lost(leases))
            # a node that could not send heartbeats either
            await admin.execute("UPDATE wakes SET node = 'node_silent'")
            began = time.monotonic()
            proxy.thaw()
            await until(lambda: joins(leases))
            await until(lambda: is_free(admin))
            assert time.monotonic() - began >= 2 * TTL
        finally:
            await leases.release()
    await admin.close()


async def test_a_node_that_others_have_seen_dead_joins_again_and_takes_no_other_for_dead(url: str) -> None:
    admin = await connect(url)
    await leave_a_lease(url, admin)
    leases = PostgresLeases(url, ttl=60.0)  # no heartbeats except the test's
    assert await leases.acquire()
    try:
        first = leases.node
        leases._steady_since -= 60.0  # pyright: ignore[reportPrivateUsage]  # as after a minute of heartbeats
        await admin.execute("UPDATE nodes SET seen = seen - 61000000")
        await leases._beat(admin, first)  # pyright: ignore[reportPrivateUsage]
        assert not leases.held
        assert await leases.acquire() and leases.node != first
        await leases._beat(admin, leases.node)  # pyright: ignore[reportPrivateUsage]
        assert not await is_free(admin)
        leases._steady_since -= 60.0  # pyright: ignore[reportPrivateUsage]
        await leases._beat(admin, leases.node)  # pyright: ignore[reportPrivateUsage]
        assert await is_free(admin)
    finally:
        await leases.release()
        await admin.close()


async def test_a_heartbeat_in_progress_does_not_bring_back_a_node_that_has_left(url: str) -> None:
    admin, leases = await connect(url), PostgresLeases(url, ttl=60.0)
    assert await leases.acquire()
    node = leases.node
    await leases._leave()  # pyright: ignore[reportPrivateUsage]
    await leases._beat(admin, node)  # pyright: ignore[reportPrivateUsage]
    assert await admin.fetchval("SELECT count(*) FROM nodes") == 0
    assert await leases.acquire()
    node = leases.node
    await admin.execute("DELETE FROM nodes")  # as if another node had forgotten it
    await leases._beat(admin, node)  # pyright: ignore[reportPrivateUsage]
    assert not leases.held
    await leases.release()
    await admin.close()


async def test_a_heart_goes_on_after_any_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [RuntimeError("can't start new thread")]

    async def fail_once(*arguments: Any, **options: Any) -> Connection:
        if errors and threading.current_thread() is leases._heart:  # pyright: ignore[reportPrivateUsage]
            raise errors.pop()
        return await connect(*arguments, **options)

    monkeypatch.setattr(leases_module, "connect", fail_once)
    leases = PostgresLeases(url, ttl=TTL)
    assert await leases.acquire()
    await until(lambda: beats(leases))
    assert not errors
    await leases.release()


async def test_a_heart_that_has_ended_is_started_again_when_the_node_joins(url: str) -> None:
    leases = PostgresLeases(url, ttl=TTL)
    assert await leases.acquire()
    heart, ending = leases._heart, leases._ending  # pyright: ignore[reportPrivateUsage]
    assert heart is not None
    ending.set()
    await asyncio.to_thread(heart.join)
    ending.clear()
    await until(lambda: is_lost(leases))
    assert await leases.acquire()
    await until(lambda: beats(leases))
    await leases.release()


async def beats(leases: PostgresLeases) -> bool:
    """Return whether the node has sent a heartbeat since it joined."""
    return leases._beaten > leases._steady_since  # pyright: ignore[reportPrivateUsage]


async def test_a_silent_database_is_named_in_the_log(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Proxy(url) as proxy:
        leases = PostgresLeases(proxy.url, ttl=TTL)
        assert await leases.acquire()
        await until(lambda: beats(leases))
        proxy.freeze()

        async def is_logged() -> bool:
            return any(each.endswith("no heartbeat: the database is silent") for each in caplog.messages)

        await until(is_logged)
        proxy.thaw()
        await leases.release()


async def test_the_time_that_connecting_takes_does_not_move_the_clock(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, moved = 0.0, list[timedelta]()

    async def slowly(*arguments: Any, **options: Any) -> Connection:
        nonlocal passed
        passed += 20.0
        return await connect(*arguments, **options)

    times = SimpleNamespace(monotonic=lambda: time.monotonic() + passed, time=time.time)
    monkeypatch.setattr(leases_module, "time", times)
    monkeypatch.setattr(leases_module, "connect", slowly)
    leases = PostgresLeases(url, ttl=TTL, clock_moved=lambda ahead, _: moved.append(ahead))
    assert await leases.acquire()
    leases.turned(0)

    async def is_moved() -> bool:
        return len(moved) > 1

    await until(is_moved)  # by the first heartbeat, on a separate session
    await leases.release()
    assert all(abs(by) < timedelta(seconds=9) for by in moved)


async def test_a_thread_whose_row_is_locked_holds_up_no_other(url: str) -> None:
    async with leased(url) as rig:
        wanted = rig.motor._requested  # type: ignore[attr-defined]
        admin = await connect(url)
        await rig.thread("a")
        await rig.thread("b")
        rig.motor._concurrency = 0  # type: ignore[attr-defined]  # it takes nothing yet
        await rig.post("a")
        async with admin.transaction():
            await admin.execute("SELECT FROM wakes WHERE thread_id = 'a' FOR UPDATE")
            rig.motor._concurrency = 100  # type: ignore[attr-defined]
            rig.motor.wake("a")
            await rig.send("b")
            await rig.until(lambda: rig.drained == ["b"])

            async def is_wanted() -> bool:
                return "a" in wanted

            await until(is_wanted)
        await rig.until(lambda: rig.drained == ["b", "a"])
        await admin.close()


async def test_a_thread_whose_row_is_locked_is_released_later(url: str) -> None:
    async with leased(url) as rig:
        await rig.motor.stop(0.0)
        await rig.thread("a")
        await rig.post("a")
    admin, leases = await connect(url), PostgresLeases(url, ttl=60.0)
    assert await leases.acquire()
    await leases.claim((), 5)
    async with admin.transaction():
        await admin.execute("SELECT FROM wakes WHERE thread_id = 'a' FOR UPDATE")
        async with asyncio.timeout(30):
            await leases.free(["a"])
    assert not await is_free(admin)
    await leases.free(["a"])
    assert await is_free(admin)
    await leases.release()
    await admin.close()


async def test_a_thread_that_is_leased_again_while_its_drain_ends_is_not_released(url: str) -> None:
    async with leased(url) as rig:
        leases, motor = rig.leases, rig.motor
        assert leases is not None
        left, claimed, freed = asyncio.Event(), asyncio.Event(), list[str]()
        claim, free = leases.claim, leases.free

        async def claim_while_the_drain_ends(
            named: Sequence[str], most: int, others: Sequence[str] = ()
        ) -> Any:
            wakes, locked = await claim(named, most, others)
            if left.is_set() and not claimed.is_set() and wakes:
                claimed.set()
                await asyncio.wait([*motor._running.values()])  # type: ignore[attr-defined]
            return wakes, locked

        async def note(thread_ids: Collection[str]) -> None:
            freed.extend(each for each in thread_ids if each in motor._queued)  # type: ignore[attr-defined]
            await free(thread_ids)

        drain = cast("Drain", motor._drain)  # type: ignore[attr-defined]

        async def drain_slowly(name: str, /, **options: Any) -> Verdict:
            verdict = await drain(name, **options)  # its wake-up is gone
            if not left.is_set():
                left.set()
                await claimed.wait()
            return verdict

        leases.claim, leases.free = claim_while_the_drain_ends, note  # type: ignore[method-assign]
        motor._drain = drain_slowly  # type: ignore[attr-defined]
        await rig.thread("a")
        await rig.send("a")
        async with asyncio.timeout(30):
            await left.wait()
        await rig.post("a")
        await rig.until(lambda: rig.drained == ["a", "a"])
        assert freed == []


async def test_a_node_that_stops_gives_each_thread_back_as_its_drain_ends(url: str) -> None:
    async with leased(url) as one, leased(url) as two:
        begun, may_end, names = (
            list[str](),
            {each: asyncio.Event() for each in ("fast", "slow")},
            ["fast", "slow"],
        )

        async def hang(name: str) -> None:
            begun.append(name)
            one.changed.set()
            await may_end[name].wait()

        one.during = hang
        two.motor._concurrency = 0  # type: ignore[attr-defined]  # it takes nothing yet
        for name in names:
            await one.thread(name)
            await one.send(name)
        await one.until(lambda: sorted(begun) == names)
        one.due_later["fast"] = one.clock.now()  # its run continues on another node
        two.motor._concurrency = 100  # type: ignore[attr-defined]
        stopping = asyncio.create_task(one.motor.stop(600.0))
        may_end["fast"].set()
        await two.until(lambda: two.drained == ["fast"])
        assert one.drained == ["fast"] and not stopping.done()
        may_end["slow"].set()
        await stopping
        assert sorted(one.drained) == names


async def test_a_node_that_stops_releases_waiting_threads_at_once(url: str) -> None:
    async with leased(url, concurrency=3) as one, leased(url) as two:
        may_end, motor = asyncio.Event(), one.motor

        async def hang_or_fail(name: str) -> None:
            if name == "failed":
                raise StoreError("The disk is full.")
            await may_end.wait()

        one.during = hang_or_fail
        two.motor._concurrency = 0  # type: ignore[attr-defined]  # it takes nothing yet
        for name in ("failed", "slow"):
            await one.thread(name)
            await one.send(name)

        async def waits() -> bool:
            return {*motor._running} == {"slow"} and "failed" in motor._not_before  # type: ignore[attr-defined]

        await until(waits)
        two.motor._concurrency = 100  # type: ignore[attr-defined]
        stopping = asyncio.create_task(motor.stop(600.0))
        await two.until(lambda: two.drained == ["failed"])
        assert not stopping.done()
        may_end.set()
        await stopping


async def test_a_node_beats_while_its_last_drain_ends_though_its_motor_has_stopped(url: str) -> None:
    async with leased(url) as rig:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def hang(_: str) -> None:
            begun.set()
            await may_end.wait()

        rig.during = hang
        await rig.thread("a")
        await rig.send("a")
        await begun.wait()
        stopping = asyncio.create_task(rig.motor.stop(600.0))
        await asyncio.wait([rig.motor._main])  # type: ignore[attr-defined]
        await until_it_turns(rig)
        may_end.set()
        await stopping


async def until_it_turns(rig: Rig) -> None:
    """Wait until it is recorded that the event loop runs."""
    leases = rig.leases
    assert leases is not None
    before = leases._turned  # pyright: ignore[reportPrivateUsage]

    async def has_turned() -> bool:
        return leases._turned > before  # pyright: ignore[reportPrivateUsage]

    await until(has_turned)


async def test_a_slow_database_does_not_count_as_a_blocked_event_loop(url: str) -> None:
    async with leased(url) as rig:
        leases, asked = rig.leases, asyncio.Event()
        assert leases is not None

        async def hang(_: Sequence[str], __: int, ___: Sequence[str] = ()) -> Any:
            asked.set()
            await asyncio.Event().wait()

        leases.claim = hang  # type: ignore[method-assign]
        async with asyncio.timeout(30):
            await asked.wait()
        await until_it_turns(rig)


async def test_a_sweep_does_not_cut_off_a_claim(url: str) -> None:
    async with leased(url, sweep=0.02) as rig:
        leases, cut_off = rig.leases, list[Sequence[str]]()
        assert leases is not None
        claim = leases.claim

        async def claim_slowly(named: Sequence[str], most: int, others: Sequence[str] = ()) -> Any:
            try:
                if named:
                    await asyncio.sleep(0.1)  # longer than a sweep
                return await claim(named, most, others)
            except asyncio.CancelledError:
                cut_off.append(named)
                raise

        leases.claim = claim_slowly  # type: ignore[method-assign]
        names = [f"t{number}" for number in range(10)]
        for name in names:
            await rig.thread(name)
            await rig.send(name)
            await rig.until(lambda name=name: name in rig.drained)
        assert cut_off == []


async def test_what_only_the_journal_knows_is_drained_however_much_is_woken_here(url: str) -> None:
    async with leased(url, concurrency=1) as rig:
        hot = ["hot1", "hot2", "hot3"]

        async def stay_hot(name: str) -> None:
            if name in hot and "timer" not in rig.drained:
                await rig.send(name)

        rig.before_leaving = stay_hot
        for name in (*hot, "timer"):
            await rig.thread(name)
        for name in hot:
            await rig.send(name)
        await rig.until(lambda: {*hot} <= {*rig.drained})
        await rig.post("timer")
        await rig.until(lambda: "timer" in rig.drained)
        await rig.idle()


async def test_a_node_without_a_free_slot_tells_others_what_was_woken_here(url: str) -> None:
    async with leased(url, concurrency=1, sweep=600.0) as rig:
        begun, may_end, told = asyncio.Event(), asyncio.Event(), list[str]()

        def tell(name: str) -> None:
            told.append(name)
            rig.changed.set()

        async def hang(_: str) -> None:
            begun.set()
            await may_end.wait()

        rig.during = hang
        rig.motor._tell = tell  # type: ignore[attr-defined]
        for name in ("slow", "a", "asked"):
            await rig.thread(name)
        await rig.send("slow")
        await begun.wait()
        await rig.post("asked")
        rig.motor.woken_elsewhere("asked", True)  # type: ignore[attr-defined]  # it is not sent back and forth
        await rig.send("a")
        await rig.until(lambda: told == ["a"])
        assert not rig.motor._requested  # type: ignore[attr-defined]
        may_end.set()


async def leave_a_lease(url: str, admin: Connection) -> None:
    """Release a thread that is leased by a node that no longer exists."""
    async with leased(url) as rig:
        await rig.motor.stop(0.0)
        await rig.thread("a")
        await rig.post("a")
    await admin.execute("UPDATE wakes SET node = 'node_gone'")


async def is_free(admin: Connection) -> bool:
    return await admin.fetchval("SELECT node FROM wakes WHERE thread_id = 'a'") is None


async def is_lost(leases: PostgresLeases) -> bool:
    return not leases.held


async def joins(leases: PostgresLeases) -> bool:
    with suppress(StoreError):
        return await leases.acquire()
    return False


async def test_a_process_without_a_cluster_waits_for_the_last_node_and_frees_what_it_left(url: str) -> None:
    lock, node, late = PostgresLock(url), PostgresLeases(url), PostgresLeases(url)
    async with leased(url) as rig:
        await rig.motor.stop(0.0)
        await rig.thread("a")
        await rig.post("a")
    assert await node.acquire()
    await node.claim((), 5)
    assert not await lock.acquire()
    admin = await connect(url)
    await admin.execute("DELETE FROM nodes")  # as some time after its death
    assert await lock.acquire()
    assert await admin.fetchval("SELECT count(*) FROM wakes WHERE node IS NOT NULL") == 0
    assert not await late.acquire()
    await lock.release()
    await admin.close()
    await node.release()
    await late.release()


async def test_each_duty_is_one_nodes(url: str) -> None:
    async with leased(url) as one, leased(url) as two:
        answers = [await motor.on_duty("tidy", 60) for motor in (one.motor, two.motor, one.motor, two.motor)]
        assert answers == [True, False, True, False]


async def test_a_node_whose_clock_is_wrong_goes_by_the_databases(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, real = ClusterClock(), time.time
    ahead = timedelta(seconds=30)
    monkeypatch.setattr(time, "time", lambda: real() + ahead.total_seconds())  # read by the heartbeat thread
    moved = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(by: timedelta, took: float) -> None:
        clock.moved(by, took)
        loop.call_soon_threadsafe(moved.set)

    leases = PostgresLeases(url, ttl=TTL, clock_moved=tell)
    assert await leases.acquire()
    async with asyncio.timeout(30):
        await moved.wait()
    admin = await connect(url)

    async def is_shown() -> bool:  # with the next heartbeat
        return abs(await admin.fetchval("SELECT skew FROM nodes") / 1e6 - 30) < 10

    await until(is_shown)
    await admin.close()
    await leases.release()
    assert abs(clock.now() + ahead - datetime.now(UTC)) < timedelta(seconds=10)


async def test_a_thread_that_failed_here_and_is_another_nodes_now_is_forgotten(url: str) -> None:
    async with leased(url) as rig:

        async def fail(_: str) -> None:
            raise StoreError("The disk is full.")

        rig.during = fail
        await rig.thread("a")
        await rig.send("a")
        waiting = rig.motor._not_before  # type: ignore[attr-defined]

        async def is_put_off() -> bool:
            return "a" in waiting

        async def is_forgotten() -> bool:
            return "a" not in waiting

        await until(is_put_off)
        admin = await connect(url)
        await admin.execute(
            "INSERT INTO nodes (id, version, slots, busy, seen) VALUES ('node_other', '', 0, 0, 4611686018427387904)"
        )  # which is alive
        await admin.execute("UPDATE wakes SET node = 'node_other'")
        await admin.close()
        await until(is_forgotten)


async def test_a_node_that_joins_again_after_it_lost_its_leases_says_so_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with leased(url, ttl=TTL) as rig:
        assert rig.leases is not None
        first = rig.leases.node
        stop_heart(rig)

        async def is_said() -> bool:
            return any("has lost its leases" in each for each in caplog.messages)

        await until(is_said)
        [said] = [each for each in caplog.records if "has lost its leases" in each.getMessage()]
        assert said.levelname == "WARNING"
        assert said.getMessage().startswith(
            f"The node {first} has lost its leases. This process continues as the node"
        )


async def test_a_heart_without_the_database_says_so_once_and_when_it_beats_again(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Proxy(url) as proxy, leased(proxy.url, ttl=4 * TTL):
        await proxy.down()

        async def is_lost() -> bool:
            return any("has no heartbeat" in each for each in caplog.messages)

        async def is_back() -> bool:
            return any("has a heartbeat again" in each for each in caplog.messages)

        await until(is_lost)
        proxy.up()
        await until(is_back)
    assert len([each for each in caplog.messages if "has no heartbeat" in each]) == 1


async def test_a_node_that_cannot_join_is_not_ready_and_says_why(url: str) -> None:
    lock = PostgresLock(url)
    assert await lock.acquire()
    async with leased(url) as rig:
        assert isinstance(rig.motor, LeaseMotor)
        assert rig.motor.unready is not None
        assert "a process without TOOLWRIGHT_CLUSTER executes the runs" in rig.motor.unready
        await lock.release()
        motor = rig.motor

        async def is_ready() -> bool:
            return motor.unready is None

        await until(is_ready)
    assert rig.motor.unready == "This node of the cluster is stopping."


async def test_processes_that_execute_runs_are_found_without_taking_the_lock(url: str) -> None:
    seen = await look_for_executors(url)
    assert (seen.nodes, seen.is_locked) == (0, False)
    lock = PostgresLock(url)
    assert await lock.acquire()
    assert await look_for_executors(url) == (0, True)
    await lock.release()
    async with leased(url), leased(url):
        assert await look_for_executors(url) == (2, False)
    async with fresh_database(migrated=False) as empty:
        assert await look_for_executors(empty) == (0, False)


async def test_a_node_that_waits_for_another_process_says_so_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock, node = PostgresLock(url), PostgresLeases(url)
    assert await lock.acquire()
    for _ in range(3):
        assert not await node.acquire()
    await lock.release()
    assert await node.acquire()
    await node.release()
    said = [each for each in caplog.messages if each.startswith("A process without a cluster")]
    assert len(said) == 1


async def test_the_duties_of_a_node_that_leaves_are_free_at_once(url: str) -> None:
    one, two = PostgresLeases(url), PostgresLeases(url)
    assert await one.acquire() and await two.acquire()
    assert await one.on_duty("sweep", 3_600)
    assert not await two.on_duty("sweep", 3_600)
    await one.release()
    assert await two.on_duty("sweep", 3_600)
    await two.release()


async def test_the_end_of_a_drain_gives_its_thread_back_and_asks_for_no_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leased(url, sweep=30.0) as rig:
        motor, leases, asked, freed = rig.motor, rig.leases, list[str](), asyncio.Event()
        assert leases is not None and isinstance(motor, LeaseMotor)
        free, claim = leases.free, leases.claim

        async def counted_claim(*given: Any) -> Any:
            asked.append("claim")
            return await claim(*given)

        async def counted_free(thread_ids: Collection[str]) -> bool:
            asked.append("free")
            try:
                return await free(thread_ids)
            finally:
                freed.set()

        async def has_swept() -> bool:
            return not motor._has_more  # pyright: ignore[reportPrivateUsage]  # there is no other indication

        await until(has_swept)
        monkeypatch.setattr(leases, "claim", counted_claim)
        monkeypatch.setattr(leases, "free", counted_free)
        await rig.post(await rig.thread("t"))
        motor.wake("t")
        await rig.until_more_than(0)
        await asyncio.wait_for(freed.wait(), 30)
        await rig.post(await rig.thread("u"))
        motor.wake("u")
        await rig.until_more_than(1)
        assert asked[:3] == ["claim", "free", "claim"]


async def test_a_thread_that_is_due_when_it_is_released_is_drained_again_at_once(url: str) -> None:
    async with leased(url, sweep=30.0) as rig:
        name = await rig.thread("t")

        async def woken(_: str) -> None:
            if len(rig.drained) < 3:
                await rig.post(name)  # by another process, without a notification

        rig.during = woken
        await rig.post(name)
        rig.motor.wake(name)
        await rig.until_more_than(2)


# ── small clock differences, failovers, backups, newer versions ─────────────────────────────────────────────────────


async def test_a_node_whose_clock_is_a_little_behind_fires_timers_once_they_are_due(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_now = ClusterClock.now

    def late(clock: ClusterClock) -> datetime:
        return true_now(clock) - timedelta(milliseconds=40)

    monkeypatch.setattr(ClusterClock, "now", late)
    fired: list[str] = []

    async def fire(what: str) -> None:
        fired.append(what)

    async with leased(url, sweep=0.05) as rig:
        timers = Timers(rig.store, rig.drain, {"call": fire}, rig.clock, new_id)
        rig.motor._drain = timers  # type: ignore[attr-defined]
        due = datetime.now(UTC) + timedelta(milliseconds=300)
        effects = tuple([SetTimer(name=f"call:{number}", due=due) for number in range(5)])
        await rig.store.commit(Apply(token=new_id("unit"), at=rig.clock.now(), effects=effects))

        async def all_fired() -> bool:
            return len(fired) == 5

        await until(all_fired)
        admin = await connect(url)

        async def none_is_left() -> bool:
            return not await admin.fetchval("SELECT count(*) FROM wakes")

        await until(none_is_left)
        await admin.close()


async def test_a_timer_of_a_newer_version_is_left_to_other_nodes(url: str) -> None:
    async with leased(url) as rig:
        timers = Timers(rig.store, rig.drain, {}, rig.clock, new_id)
        assert await timers("later:x", node="node_1") == "elsewhere"


def test_the_clock_goes_by_the_quickest_answer() -> None:
    clock = ClusterClock()

    def ahead() -> float:
        return (clock.now() - datetime.now(UTC)).total_seconds()

    clock.moved(timedelta(seconds=100.04), 0.08)
    clock.moved(timedelta(seconds=100), 0.001)  # a better measurement
    clock.moved(timedelta(seconds=100.03), 0.06)  # a difference within the answer's delay is ignored
    assert abs(ahead() - 100) < 0.02
    clock.moved(timedelta(seconds=90), 0.06)  # the machine's clock was set
    assert abs(ahead() - 90) < 0.02


async def test_sessions_to_an_old_primary_are_ended(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "PAUSES", (0.0, 0.05))
    async with leased(url, sweep=0.05) as rig:
        names = [await rig.thread(f"t{number}") for number in range(8)]
        admin = await connect(url)
        name = await admin.fetchval("SELECT current_database()")
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        done = await asyncio.gather(*map(rig.post, names), return_exceptions=True)
        assert [type(each) for each in done] == [StoreError] * 8
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await admin.close()
        await asyncio.gather(*map(rig.post, names))


async def test_an_upgrade_that_waits_for_a_reader_blocks_no_other(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    admin, reader, node = await connect(url), await connect(url), await connect(url)
    later = ("threads.hides", "messages.hidden_by", "runs.isolated", "threads.key", "threads.owner_key")
    newest = ("calls.decisions", "runs.decisions", "calls.requested", "runs.deps", "plans.run_id")
    for column in ("compactions.refused_by", "nodes.address", "nodes.alike", *later, *newest):
        await admin.execute("ALTER TABLE {} DROP COLUMN {}".format(*column.split(".")))
    await admin.execute("DROP TABLE signing_keys, hook_verdicts")
    await admin.execute("DROP INDEX calls_by_time")
    await admin.execute("UPDATE alembic_version SET version_num = '0024'")
    await reader.execute("BEGIN")
    await reader.execute("LOCK TABLE compactions IN ACCESS SHARE MODE")
    upgrade = asyncio.create_task(upgrade_postgres(url))
    for _ in range(2):
        await until(lambda: _waits(admin))
        await node.fetch("SELECT * FROM compactions LIMIT 1")  # before the reader ends
    assert not upgrade.done()
    await reader.execute("COMMIT")
    await upgrade
    assert await admin.fetchval("SELECT version_num FROM alembic_version") == HEAD
    assert len([each for each in caplog.messages if "waits for a session that reads its tables" in each]) == 1
    for session in (admin, reader, node):
        await session.close()


async def _waits(admin: Connection) -> bool:
    """Return whether a statement waits for the lock of a table."""
    return bool(
        await admin.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'")
    )


async def test_of_very_many_threads_that_others_must_drain_the_rest_is_put_off(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(motor_module, "MAX_OTHERS", 5)
    drained: Counter[str] = Counter()

    async def drain(name: str, *, alone: bool = False, suspects: int = 1, node: str | None = None) -> Verdict:
        drained[name] += 1
        return "elsewhere"

    async with leased(url) as rig:
        rig.motor._drain = drain  # type: ignore[attr-defined]
        for number in range(20):
            await rig.post(await rig.thread(f"t{number}"))
        admin = await connect(url)
        due = "SELECT count(*) FROM wakes WHERE node IS NULL AND due <= extract(epoch FROM clock_timestamp()) * 1000000"

        async def only_those_in_the_list_are_due() -> bool:
            return len(drained) == 20 and await admin.fetchval(due) == 5

        await until(only_those_in_the_list_are_due)
        await admin.close()


async def test_a_thread_whose_drain_fails_again_is_given_to_another_node(url: str) -> None:
    async with leased(url) as old, leased(url) as new:

        async def fail(_: str) -> None:
            raise KeyError("of a newer version")

        old.during = fail
        await old.thread("a")
        await old.send("a")
        await new.until(lambda: new.drained == ["a"])


async def test_a_process_that_may_not_join_again_says_why(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with leased(url) as rig:
        leases, motor = rig.leases, rig.motor
        assert isinstance(leases, PostgresLeases) and isinstance(motor, LeaseMotor)

        async def refuse(_: str) -> None:
            raise DefinitionError("Another node has other keys.")

        leases._check = refuse  # pyright: ignore[reportPrivateUsage]
        leases._is_lost = True  # pyright: ignore[reportPrivateUsage]  # as after a stall

        async def is_told() -> bool:
            return motor.unready == "Another node has other keys."

        await until(is_told)
        for _ in range(5):
            await motor._turn()  # pyright: ignore[reportPrivateUsage]
        leases._check = None  # pyright: ignore[reportPrivateUsage]

        async def is_ready() -> bool:
            return motor.unready is None

        await until(is_ready)
    assert len([each for each in caplog.messages if "cannot join the cluster again" in each]) == 1
    assert not [each for each in caplog.messages if "after a fault" in each]


async def test_a_node_that_joins_again_frees_what_it_could_not_give_back(url: str) -> None:
    async with Proxy(url) as proxy:
        leases = PostgresLeases(proxy.url, ttl=30.0)
        assert await leases.acquire()
        async with leased(url) as rig:
            await rig.thread("a")
            stop_heart(rig)
        admin = await connect(url)
        await admin.execute(
            "INSERT INTO wakes (thread_id, due, gen, node) VALUES ('a', 1, 1, $1)", leases.node
        )
        await proxy.down()
        leases._is_lost = True  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(StoreError):
            await leases.acquire()
        proxy.up()
        assert await leases.acquire()
        assert await admin.fetchval("SELECT node FROM wakes") is None
        assert await admin.fetchval("SELECT count(*) FROM nodes WHERE id = $1", leases.node) == 1
        await leases.release()
        await admin.close()


async def test_a_process_that_waits_for_the_lock_keeps_one_session(url: str) -> None:
    first, second = PostgresLock(url), PostgresLock(url)
    assert await first.acquire()
    admin = await connect(url)
    sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() ORDER BY pid"
    assert not await second.acquire()
    before = await admin.fetch(sessions)
    for _ in range(3):
        assert not await second.acquire()
    assert await admin.fetch(sessions) == before
    await first.release()
    assert await second.acquire()
    await second.release()
    await admin.close()


async def test_a_wake_from_another_process_is_forgotten_with_its_lease(url: str) -> None:
    async with leased(url, sweep=0.05) as rig:
        motor = rig.motor
        assert isinstance(motor, LeaseMotor)
        names = [await rig.thread(f"t{number}") for number in range(100)]
        for name in names:
            await rig.post(name)
            motor.woken_elsewhere(name, True)

        async def all_drained() -> bool:
            return {*rig.drained} == {*names}

        await until(all_drained)
        await until(lambda: _is_empty(motor._requested))  # pyright: ignore[reportPrivateUsage]
        assert not motor._from_elsewhere  # pyright: ignore[reportPrivateUsage]


async def _is_empty(things: Collection[object]) -> bool:
    return not things
