"""Numbers of space events on Postgres: given in groups, behind the commits that made the events.

All spaces share one counter, so that a stream of all of them can be resumed at a number (see `follow`). Counting in
the unit itself would hold the counter's row until its commit is on the disk, and with it every other writer of any
space. So a unit leaves its events in `unnumbered_events`; right after its commit one statement for all that lie there
takes the counter, numbers them in the order in which they were made, and moves them to `space_events`. A commit is
answered when its events are numbered. What a dead process has left is numbered by the next pass of any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from toolwright.adapters.store.engine.outcome import Publish
from toolwright.adapters.store.postgres.connection import FAULTS, Connection, Limits, Pool, lent
from toolwright.adapters.store.sql.readers import each_event
from toolwright.adapters.store.sql.spaces import SPACE_EVENTS
from toolwright.core.env.logs import logger
from toolwright.core.threads.event import Event

log = logger("toolwright.store")
T = TypeVar("T")

POLL_INTERVAL = 5.0  # seconds between two looks for what another process has left
EVENTS_PER_READ = (
    500  # events that are handed to the bus together: of more, those who follow read the rest in the table
)

_COUNTED = "SELECT value FROM counters WHERE name = 'space_events'"
# One round trip, five statements: the fourth begins once the counter is ours, and sees all that was committed by then.
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
# The next one too: where it is not followed by the others, the bus sees that some are left out.
_NEWER = """SELECT * FROM (SELECT * FROM space_events WHERE n > $1 ORDER BY n LIMIT 1) AS next
UNION SELECT * FROM (SELECT * FROM space_events WHERE n > $1 ORDER BY n DESC LIMIT $2) AS newest ORDER BY n"""
_LEFT = "SELECT EXISTS (SELECT 1 FROM unnumbered_events)"


class SpaceNumbering:
    """Gives the events of spaces their numbers, and hands them to the bus in their order."""

    def __init__(self, pool: Pool, publish: Publish, limits: Limits) -> None:
        self._pool = pool
        self._publish = publish
        self._limits = limits
        self._last: int | None = None  # the number of the event that was published last
        self._asked: asyncio.Future[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Number what other processes have left, now and from time to time."""
        await self._pass()
        self._watch = asyncio.create_task(self._number_leftovers())

    async def settle(self) -> None:
        """Return once all that was committed before is numbered and published.

        If the database is gone meanwhile, what is committed stays committed: its events are numbered later.
        """
        if self._asked is None:
            self._asked = asyncio.get_running_loop().create_future()
        asked = self._asked
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._serve())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.attempt):
                await asyncio.shield(asked)

    async def close(self) -> None:
        """End; whatever is still asked for is done before."""
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        if self._work is not None:
            await self._work

    async def _serve(self) -> None:
        """Run passes while callers wait. A pass serves all callers who asked before it began."""
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
