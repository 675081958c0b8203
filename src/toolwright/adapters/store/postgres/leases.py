"""Leases of threads by the nodes of a cluster on Postgres, valid as long as the node's heartbeat succeeds."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from toolwright.adapters.store.engine.codecs import instant
from toolwright.adapters.store.engine.program import NOW
from toolwright.adapters.store.postgres.connection import (
    APPLICATION,
    FAULTS,
    Connection,
    connect,
    store_error,
)
from toolwright.adapters.store.postgres.locks import DRAIN_LOCK
from toolwright.adapters.system import new_id
from toolwright.core.env.logs import logger
from toolwright.core.errors import StoreError, ToolwrightError
from toolwright.core.threads.thread import Wake

T = TypeVar("T")
TTL = 5.0  # seconds without a heartbeat after which a node's leases expire
SLOW = 1.0  # seconds of response time above which an answer is too imprecise to compare clocks
SAFE = 0.8  # share of the TTL after which the node itself considers its leases lost
HUNG = 30.0  # seconds without a turn of the event loop after which the node stops its heartbeat
FORGOTTEN = 60  # multiple of the TTL after which the row of a dead node is deleted
# A process that was stopped between the messages of one statement holds its locks without being idle: neither
# `statement_timeout` nor `idle_in_transaction_session_timeout` applies, and `transaction_timeout` needs Postgres 17.
_END_SILENT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = $1
  AND state = 'active' AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - $2::bigint * interval '1 us'
"""
_LEASED = "SELECT thread_id, due, gen FROM wakes WHERE node = $1"
_FREE_ALL = """
UPDATE wakes SET node = NULL WHERE thread_id IN (
  SELECT thread_id FROM wakes WHERE node = ANY($1::text[]) FOR UPDATE SKIP LOCKED
)
"""
_LEAVE = "WITH left_duties AS (DELETE FROM duties WHERE node = ANY($1)) DELETE FROM nodes WHERE id = ANY($1)"
log = logger("toolwright.motor")


def _timed(statement: str) -> str:
    """Return the statement with the database's time, in microseconds since 1970, for NOW.

    The database's clock determines what is due and which nodes are alive, because the clocks of nodes can differ.
    """
    return statement.replace("NOW", NOW["postgresql"])


_JOIN = _timed("""
INSERT INTO nodes (id, version, slots, busy, skew, keys, files, address, alike, seen)
VALUES ($1, $2, $3, 0, $4, $5, $6, $7, $8, NOW)
RETURNING seen
""")
# Not an upsert: the row of a node that has left must not be inserted again.
_BEAT = _timed("""
UPDATE nodes SET seen = NOW, busy = $2, skew = $3 FROM nodes AS before
WHERE nodes.id = $1 AND before.id = nodes.id RETURNING nodes.seen, before.seen
""")
_REAP = _timed("""
UPDATE wakes SET node = NULL WHERE thread_id IN (
  SELECT thread_id FROM wakes WHERE node IN (
    SELECT DISTINCT node FROM wakes WHERE node IS NOT NULL EXCEPT SELECT id FROM nodes WHERE seen > NOW - $1::bigint
  ) FOR UPDATE SKIP LOCKED
)
""")
_FORGET = _timed("DELETE FROM nodes WHERE seen < NOW - $1::bigint")
# No statement waits for a row that another session has locked: one thread must not hold up all others.
_CLAIM = _timed("""
WITH named AS (
  SELECT thread_id FROM wakes WHERE thread_id = ANY($3::text[]) AND (node IS NULL OR node = $1) FOR UPDATE SKIP LOCKED
), ripe AS (
  SELECT thread_id FROM wakes
  WHERE node IS NULL AND due <= NOW AND thread_id NOT IN (SELECT unnest($4::text[]))
  ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
), leased AS (
  UPDATE wakes SET node = $1 WHERE thread_id IN (SELECT thread_id FROM named UNION SELECT thread_id FROM ripe)
  RETURNING thread_id, due, gen
)
SELECT thread_id, due, gen, true FROM leased
UNION ALL SELECT thread_id, due, gen, false FROM wakes
WHERE thread_id = ANY($3::text[]) AND (node IS NULL OR node = $1) AND thread_id NOT IN (SELECT thread_id FROM leased)
""")
# A thread that is due again moves to the end of the queue. A thread that is woken in each of its runs would otherwise
# always be first, since its wake-up keeps its due time. The same applies to a timer that a node whose clock is behind
# would never fire.
_FREE = _timed("""
UPDATE wakes SET node = NULL,
  due = CASE WHEN thread_id LIKE '%:%' THEN due ELSE greatest(due, NOW + $3::bigint) END
WHERE thread_id IN (
  SELECT thread_id FROM wakes WHERE thread_id = ANY($2::text[]) AND node = $1 FOR UPDATE SKIP LOCKED
)
RETURNING due <= NOW
""")
_ON_DUTY = _timed("""
INSERT INTO duties (name, node, until) VALUES ($1, $2, NOW + $3::bigint)
ON CONFLICT (name) DO UPDATE SET node = excluded.node, until = excluded.until
WHERE duties.node = excluded.node OR duties.until < NOW
RETURNING name
""")


class PostgresLeases:
    """The leases of this process's node, valid as long as its heartbeat succeeds.

    The heartbeat runs in a separate thread with its own session: neither a busy event loop nor a full pool delays it. A
    node without a successful heartbeat considers its leases lost (`held`) before other nodes can acquire them. It joins
    again under a new id, so that its units of work under the old id are rejected.

    `clock_moved` is called with the time by which the database's clock is ahead of this machine's clock, and the
    response time in seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        version: str = "",
        slots: int = 0,
        keys: Sequence[str] = (),
        files: str = "",
        address: str = "",
        alike: str = "",
        ttl: float = TTL,
        clock_moved: Callable[[timedelta, float], None] = lambda _, __: None,
        check: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self.node = ""
        self.busy = 0
        self._url, self._version, self._slots, self._ttl = url, version, slots, ttl
        self._skew = 0
        self._shown = ",".join(keys), files, address, alike
        self._clock_moved = clock_moved
        self._check = check
        self._micros = int(ttl * 1_000_000)
        self._session: Connection | None = None
        self._turn = asyncio.Lock()  # one statement at a time on the session
        self._beaten = -ttl  # monotonic time
        self._steady_since = 0.0  # start of the current sequence of heartbeats without a gap
        self._is_lost = False  # other nodes consider this node dead
        self._turned = 0.0
        self._is_waiting = self._is_silent = False
        self._former: list[str] = []  # earlier node ids of this process that could not be released yet
        self._heart: threading.Thread | None = None
        self._heart_session: Connection | None = None  # used in the heartbeat thread's event loop
        self._ending = threading.Event()
        # for attributes that both threads write: `node`, `_beaten`, `_is_lost`
        self._guard = threading.Lock()

    @property
    def held(self) -> bool:
        """Return whether this node's leases are valid: no other node can have leased its threads."""
        is_known = bool(self.node) and not self._is_lost
        return is_known and time.monotonic() - self._beaten < self._ttl * SAFE

    @property
    def is_waiting(self) -> bool:
        """Return whether a process outside the cluster holds the drain lock and prevents this node from joining."""
        return self._is_waiting

    def turned(self, busy: int) -> None:
        """Record that the event loop runs, and the number of threads in progress."""
        self._turned, self.busy = time.monotonic(), busy

    async def acquire(self) -> bool:
        """Join the cluster as a new node. Returns False while a process outside the cluster executes runs."""
        if self.held:
            return True
        await self._leave()
        node, began = new_id("node"), time.monotonic()
        if not await self._ask(lambda session: self._join(session, node)):
            if not self._is_waiting:  # called in each turn of the scheduler
                log.warning(
                    "A process without a cluster executes this journal's runs. This node waits until it ends."
                )
            self._is_waiting = True
            return False
        if self._check is not None:
            try:  # if two start at once, each sees the other
                await self._check(node)
            except ToolwrightError:
                with suppress(StoreError):
                    await self._ask(lambda session: session.execute(_LEAVE, [node]))
                raise
        self._is_waiting = False
        with self._guard:
            self.node, self._is_lost = node, False
            self._beaten = self._steady_since = self._turned = began
        if self._heart is None or not self._heart.is_alive():
            self._heart = threading.Thread(target=self._beat_in_thread, name="toolwright-heart", daemon=True)
            self._heart.start()
        log.info("This process is the node %s of the cluster.", node)
        return True

    async def release(self) -> None:
        """Leave the cluster and release its threads immediately."""
        self._ending.set()
        if self._heart is not None:
            await asyncio.to_thread(self._heart.join, self._ttl)
            self._heart = None
        await self._leave()
        session, self._session = self._session, None
        if session is not None and not session.is_closed():
            with suppress(*FAULTS):
                await session.close(timeout=self._ttl)

    async def claim(
        self, named: Sequence[str], most: int, others: Sequence[str] = ()
    ) -> tuple[list[Wake], list[str]]:
        """Lease threads in one statement; see `Leases.claim`."""
        node = self.node
        rows = await self._ask(lambda session: session.fetch(_CLAIM, node, most, list(named), list(others)))
        wakes = [
            Wake(thread_id=one, due=instant(due), gen=gen, node=node)
            for one, due, gen, is_leased in rows
            if is_leased
        ]
        return wakes, [thread_id for thread_id, _, _, is_leased in rows if not is_leased]

    async def leased(self) -> list[Wake]:
        """Return the wake-ups of all threads that this node has leased."""
        node = self.node
        rows = await self._ask(lambda session: session.fetch(_LEASED, node))
        return [Wake(thread_id=one, due=instant(due), gen=gen, node=node) for one, due, gen in rows]

    async def free(self, thread_ids: Collection[str], delay: float = 0.0) -> bool:
        """Release these threads; see `Leases.free`. Returns whether one of them is due again."""
        node, micros = self.node, int(delay * 1_000_000)
        rows = await self._ask(lambda session: session.fetch(_FREE, node, list(thread_ids), micros))
        return any(is_due for (is_due,) in rows)

    async def on_duty(self, name: str, seconds: float) -> bool:
        """Return whether this node holds the named duty. One node at a time holds each duty, for `seconds`."""
        if not self.held:
            return False
        node, until = self.node, int(seconds * 1_000_000)
        return await self._ask(lambda session: session.fetchval(_ON_DUTY, name, node, until)) is not None

    # ── the session of the event loop ───────────────────────────────────────────────────────────────────────

    async def _ask(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            async with self._turn, asyncio.timeout(self._ttl):
                if self._session is None or self._session.is_closed():
                    # A lease need not survive a crash of the database by itself: the commits of a run under it are
                    # durable, and so is everything committed before.
                    self._session = await connect(self._url, is_durable=False, lock_seconds=self._ttl / 5)
                return await work(self._session)
        except (*FAULTS, TimeoutError) as error:
            if self._session is not None:
                self._session.terminate()
            self._session = None
            raise store_error(error) from error

    async def _join(self, session: Connection, node: str) -> bool:
        async with session.transaction():
            if not await session.fetchval("SELECT pg_try_advisory_xact_lock_shared($1)", DRAIN_LOCK):
                return False
            if self._former:
                await session.execute(_FREE_ALL, self._former)
                await session.execute(_LEAVE, self._former)
            began = time.monotonic()
            row = node, self._version, self._slots, self._skew, *self._shown
            seen = await session.fetchval(_JOIN, *row)
            self._compare_clocks(seen, began)  # before anything is recorded with a wrong clock
        self._former = []
        return True

    def _compare_clocks(self, seen: int, began: float) -> None:
        """Measure the difference between this machine's clock and the database's time in an answer just received."""
        took = time.monotonic() - began
        if took > SLOW:
            return  # half of the response time could be a clock difference or network delay
        middle = time.time() - took / 2
        self._skew = int(middle * 1_000_000) - seen  # the next heartbeat detects it
        self._clock_moved(timedelta(microseconds=-self._skew), took)

    async def _leave(self) -> None:
        with self._guard:
            node, self.node = self.node, ""
        if not node:
            return
        try:
            await self._ask(lambda session: session.execute(_FREE_ALL, [node]))
            await self._ask(lambda session: session.execute(_LEAVE, [node]))
        except (
            StoreError
        ):  # other nodes release its threads after the TTL, or this one does when it joins again
            self._former = [*self._former[-9:], node]

    # ── the heartbeat thread ────────────────────────────────────────────────────────────────────────────────

    def _beat_in_thread(self) -> None:
        with asyncio.Runner() as runner:
            while not self._ending.wait(self._ttl / 4):
                try:
                    runner.run(self._try_to_beat())
                except Exception:  # the thread's entry point: nothing else would notice that it ended
                    log.exception("The node %s has no heartbeat.", self.node)
            self._end_heart_session()

    async def _try_to_beat(self) -> None:
        node = self.node
        if not node or self._is_lost or time.monotonic() - self._turned > HUNG:
            return
        try:
            async with asyncio.timeout(self._ttl / 2):
                if self._heart_session is None:
                    self._heart_session = await connect(self._url)
                await self._beat(self._heart_session, node)
            if self._is_silent:
                log.warning("The node %s has a heartbeat again.", node)
            self._is_silent = False
        except (*FAULTS, TimeoutError) as error:
            self._end_heart_session()
            if not self._is_silent:
                log.warning("The node %s has no heartbeat: %s", node, str(error) or "the database is silent")
            self._is_silent = True
        except Exception:
            self._end_heart_session()
            raise

    def _end_heart_session(self) -> None:
        session, self._heart_session = self._heart_session, None
        if session is not None:
            session.terminate()

    async def _beat(self, session: Connection, node: str) -> None:
        """Send one heartbeat, then release the locks and threads of dead nodes."""
        began = time.monotonic()
        rows = await session.fetch(_BEAT, node, self.busy, self._skew)
        seen, before = rows[0] if rows else (0, 0)
        if rows:
            self._compare_clocks(seen, began)
        await session.execute(_END_SILENT, APPLICATION, self._micros)
        if not rows or seen - before > self._micros:
            with self._guard:
                if self.node == node:
                    self._is_lost = True  # other nodes can hold its threads: it must join again
            return
        if began - self._beaten > self._ttl * SAFE:
            self._steady_since = began
        with self._guard:
            if self.node == node:
                self._beaten = began
        # Right after a database outage no node has a recent heartbeat: the first one must not consider all others
        # dead. A node that has just joined cannot distinguish an outage from dead nodes either.
        if began - self._steady_since >= self._ttl:
            await session.execute(_REAP, self._micros)
            await session.execute(_FORGET, self._micros * FORGOTTEN)
