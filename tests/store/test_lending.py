"""Sessions that are kept for who comes next: a pool that closes gets every one of them back."""

import asyncio
from typing import Any, cast

import pytest

from toolwright.adapters.store.postgres.connection import Connection, Lending

pytestmark = pytest.mark.anyio


class Session:
    """A session that is fit to be lent again."""

    def is_closed(self) -> bool:
        return False

    def is_in_transaction(self) -> bool:
        return False


class Sessions:
    """A pool that is closed once all of its sessions are back, as asyncpg's."""

    def __init__(self) -> None:
        self.out = 0
        self._back = asyncio.Event()

    async def acquire(self) -> Connection:
        self.out += 1
        return cast("Any", Session())  # as much of a connection as is asked for

    async def release(self, connection: Connection) -> None:
        self.out -= 1
        self._back.set()

    async def close(self) -> None:
        while self.out:
            self._back.clear()
            await self._back.wait()

    def terminate(self) -> None: ...


async def test_a_session_is_lent_again_without_a_word_to_the_pool() -> None:
    pool = Sessions()
    lending = Lending(pool)
    session = await lending.acquire()
    await lending.release(session)
    assert (await lending.acquire() is session, pool.out) == (True, 1)


async def test_a_session_that_comes_back_while_the_pool_closes_is_the_pools_again() -> None:
    pool = Sessions()
    lending = Lending(pool)
    session = await lending.acquire()
    closing = asyncio.create_task(lending.close())
    await asyncio.sleep(0)
    await lending.release(session)
    async with asyncio.timeout(10):
        await closing
    assert pool.out == 0
