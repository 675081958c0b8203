"""Numbers of the events of spaces on Postgres, assigned after the commits that wrote them.

All spaces share one counter, so that a stream of all spaces can be resumed at a number (see `follow`). Counting within
the unit would lock the counter's row until its commit is on disk and block every other writer of any space. So a unit
inserts its events into `unnumbered_events`. Right after its commit, one statement locks the counter, numbers all
events in that table in the order of creation, and moves them to `space_events`. A commit is answered after its events
are numbered. Events left by a dead process are numbered by the next pass of any other process.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from toolwright.adapters.store.engine.outcome import Publish
from toolwright.adapters.store.postgres.connection import (
    FAULTS,
    Connection,
    Limits,
    Pool,
    lent,
)
from toolwright.adapters.store.sql.readers import each_event
from toolwright.adapters.store.sql.spaces import SPACE_EVENTS
from toolwright.core.concurrency import start_task
from toolwright.core.env.logs import logger
from toolwright.core.threads.event import Event

log = logger("toolwright.store")
T = TypeVar("T")

POLL_INTERVAL = 5.0  # seconds between two checks for events left by other processes
EVENTS_PER_READ = 500  # events published to the bus together; subscribers read any others from the table

_COUNTED = "SELECT value FROM counters WHERE name = 'space_events'"
# One round trip, five statements: the fourth starts after the counter is locked and sees everything committed by then.
_NUMBER = """BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0;
SELECT value FROM counters WHERE name = 'space_events' FOR UPDATE;
WITH made AS (DELETE FROM unnumbered_events RETURNING *),
counted AS (
    UPDATE counters SET value = value + (SELECT count(*) FROM made) WHERE name = 'space_events'
    RETURNING value - (SELECT count(*) FROM made) AS before
),
placed AS (SELECT *, min(place) OVER (PARTITION BY unit) AS begun FROM made),
numbered AS (SELECT *, row_number() OVER (ORDER BY begun, i) AS more FROM placed)
INSERT INTO space_events (n, space_id, thread_id, run_id, agent, type, payload, at)
SELECT before + more, space_id, thread_id, run_id, agent, type, payload, at FROM numbered, counted;
COMMIT"""
# Includes the next event: if there is a gap after it, the bus detects that some events are left out.
_NEWER = """SELECT * FROM (SELECT * FROM space_events WHERE n > $1 ORDER BY n LIMIT 1) AS next
UNION SELECT * FROM (SELECT * FROM space_events WHERE n > $1 ORDER BY n DESC LIMIT $2) AS newest ORDER BY n"""
_LEFT = "SELECT EXISTS (SELECT 1 FROM unnumbered_events)"


class SpaceNumbering:
    """Numbers the events of spaces and publishes them to the bus in order."""

    def __init__(self, pool: Pool, publish: Publish, limits: Limits) -> None:
        self._pool = pool
        self._publish = publish
        self._limits = limits
        self._last: int | None = None  # number of the last published event
        self._asked: asyncio.Future[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Number the events left by other processes, now and periodically."""
        await self._pass()
        self._watch = start_task(self._number_leftovers(), "postgres-numbers")

    async def settle(self) -> None:
        """Wait until all events committed before the call are numbered and published.

        If the database becomes unavailable in the meantime, the commits remain and their events are numbered later.
        """
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
        asked = self._asked
        if self._work is None or self._work.done():
            self._work = start_task(self._serve(), "postgres-writer")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.attempt):
                await asyncio.shield(asked)

    async def close(self) -> None:
        """Stop, after completing the pending passes."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        if self._work is not None:
            await self._work

    async def _serve(self) -> None:
        """Run passes while callers wait. A pass serves all callers that started waiting before it began."""
        while self._asked is not None:
            asked, self._asked = self._asked, None
            try:
                await self._pass()
            except (*FAULTS, TimeoutError) as error:
                log.warning("The events of spaces could not be numbered. This is retried: %s", error)
            finally:
                asked.set_result(None)

    async def _number_leftovers(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            with suppress(*FAULTS, TimeoutError):
                if await self._on_session(_something_left):
                    await self.settle()

    async def _pass(self) -> None:
        events = await self._on_session(self._number)
        if events:
            self._publish(events)

    async def _on_session(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with asyncio.timeout(self._limits.attempt), lent(self._pool) as connection:
            return await work(connection)

    async def _number(self, connection: Connection) -> Sequence[Event]:
        if self._last is None:
            self._last = int(await connection.fetchval(_COUNTED))
        try:
            await connection.execute(_NUMBER)
        except FAULTS:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        return await self._newer(connection)

    async def _newer(self, connection: Connection) -> Sequence[Event]:
        rows = [tuple(row) for row in await connection.fetch(_NEWER, self._last, EVENTS_PER_READ)]
        events = each_event(SPACE_EVENTS, rows)
        if events:
            self._last = events[-1].n
        return events


async def _something_left(connection: Connection) -> bool:
    return bool(await connection.fetchval(_LEFT))
