"""Sessions kept for reuse: a pool that closes gets every one of them back."""

import asyncio
from typing import Any, cast

import pytest

from toolwright.adapters.store.postgres.connection import Connection, SessionPool

pytestmark = pytest.mark.anyio


class Session:
    """A session that can be reused until its connection is cut."""

    closed = False

    def is_closed(self) -> bool:
        return self.closed

    def is_in_transaction(self) -> bool:
        return False


class Sessions:
    """A pool that closes after all of its sessions have been returned, like asyncpg's."""

    def __init__(self) -> None:
        self.out = 0
        self._back = asyncio.Event()

    async def acquire(self) -> Connection:
        self.out += 1
        return cast("Any", Session())  # implements the required part of a connection

    async def release(self, connection: Connection) -> None:
        self.out -= 1
        self._back.set()

    async def close(self) -> None:
        while self.out:
            self._back.clear()
            await self._back.wait()

    def terminate(self) -> None: ...


async def lent() -> tuple[Sessions, SessionPool, Connection]:
    """Return a pool, what lends its one session, and that session."""
    pool = Sessions()
    lending = SessionPool(pool, 1)
    return pool, lending, await lending.acquire()


async def test_a_session_is_lent_again_without_a_word_to_the_pool() -> None:
    pool, lending, session = await lent()
    await lending.release(session)
    assert (await lending.acquire() is session, pool.out) == (True, 1)


async def test_a_session_that_comes_back_while_the_pool_closes_is_the_pools_again() -> None:
    pool, lending, session = await lent()
    closing = asyncio.create_task(lending.close())
    await asyncio.sleep(0)
    await lending.release(session)
    async with asyncio.timeout(10):
        await closing
    assert pool.out == 0


async def _turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_those_who_wait_get_the_session_in_the_order_of_their_coming() -> None:
    pool, lending, session = await lent()
    waiting = [asyncio.create_task(lending.acquire()) for _ in range(3)]
    await _turn()
    for each in waiting:
        await lending.release(session)
        await _turn()
        assert [one.done() for one in waiting].count(True) == waiting.index(each) + 1
        assert each.result() is session
    assert pool.out == 1


async def test_who_is_cancelled_while_it_waits_takes_no_session_with_it() -> None:
    _, lending, session = await lent()
    first, second = (asyncio.create_task(lending.acquire()) for _ in range(2))
    await _turn()
    await lending.release(session)  # to the first waiter, which has not resumed yet
    first.cancel()
    async with asyncio.timeout(10):
        assert await second is session
    third, fourth = (asyncio.create_task(lending.acquire()) for _ in range(2))
    await _turn()
    third.cancel()
    await lending.release(session)
    async with asyncio.timeout(10):
        assert await fourth is session


async def test_a_session_that_was_cut_off_makes_room_for_another() -> None:
    pool, lending, session = await lent()
    waiting = asyncio.create_task(lending.acquire())
    await _turn()
    cast("Any", session).closed = True
    await lending.release(session)
    async with asyncio.timeout(10):
        assert await waiting is not session
    assert pool.out == 1


async def test_a_session_that_cannot_be_opened_makes_room_for_who_waits() -> None:
    class Refusing(Sessions):
        refusals = 1

        async def acquire(self) -> Connection:
            await asyncio.sleep(0)
            if self.refusals:
                self.refusals -= 1
                raise OSError("no route")
            return await super().acquire()

    lending = SessionPool(Refusing(), 1)
    refused, waiting = (asyncio.create_task(lending.acquire()) for _ in range(2))
    with pytest.raises(OSError, match="no route"):
        await refused
    async with asyncio.timeout(10):
        await waiting


async def test_an_idle_session_that_was_cut_off_is_not_lent_again() -> None:
    pool, lending, session = await lent()
    await lending.release(session)
    cast("Any", session).closed = True
    assert (await lending.acquire() is session, pool.out) == (False, 1)


async def test_a_session_of_one_who_is_cancelled_while_the_pool_closes_is_the_pools_again() -> None:
    pool, lending, session = await lent()
    waiting = asyncio.create_task(lending.acquire())
    await asyncio.sleep(0)
    await lending.release(session)  # to the waiter, which has not resumed yet
    waiting.cancel()
    async with asyncio.timeout(10):
        await lending.close()
    assert pool.out == 0


async def test_a_session_that_is_cut_off_on_its_way_to_who_waits_is_not_lent() -> None:
    pool, lending, session = await lent()
    waiting = asyncio.create_task(lending.acquire())
    await asyncio.sleep(0)
    await lending.release(session)
    cast("Any", session).closed = True
    async with asyncio.timeout(10):
        assert (await waiting is session, pool.out) == (False, 1)
