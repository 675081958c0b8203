"""Runs: read, waited for, cancelled."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from types import NoneType

from toolwright.core.agents.run_events import RunEvent
from toolwright.core.agents.run_result import RunResult
from toolwright.core.errors import NotFound, RunOver
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Conflict, RequestCancel
from toolwright.core.ports import Bus, Clock, Motor, NewId
from toolwright.core.threads.event import Topic
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import OVER, Run, RunStatus, Step
from toolwright.runtime.checks import by_id, by_kind, by_text, page
from toolwright.runtime.threads.results import RunResults
from toolwright.runtime.threads.streams import RunStreams

ENDS = frozenset(f"run.{status}" for status in OVER)
LOOK_AGAIN = 1.0  # seconds after which a waiter reads the journal: another process may have ended the run


class Runs:
    """Runs, for users. Raises `NotFound` for ids that lead nowhere."""

    def __init__(
        self,
        store: Store,
        motor: Motor,
        bus: Bus,
        clock: Clock,
        new_id: NewId,
        results: RunResults,
        streams: RunStreams,
    ) -> None:
        self._results = results
        self._streams = streams
        self._store = store
        self._motor = motor
        self._bus = bus
        self._clock = clock
        self._new_id = new_id

    async def get(self, run_id: str) -> Run:
        """The run."""
        run = await self._store.run(by_id("run", run_id))
        if run is None:
            raise NotFound(f"There is no run {run_id!r}.")
        return run

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[Run]:
        """Runs, the newest first."""
        page(limit, offset)
        by_text("status", status)
        by_text("agent", agent)
        by_text("thread_id", thread_id)
        return await self._store.runs(
            status=status, agent=agent, thread_id=thread_id, limit=limit, offset=offset
        )

    async def steps(self, run_id: str) -> Sequence[Step]:
        """The run's steps, in order."""
        return await self._store.steps(by_id("run", run_id))

    async def messages(self, run_id: str) -> Sequence[Message]:
        """Messages of the run, in order."""
        return await self._store.run_messages(by_id("run", run_id))

    async def result(self, run_id: str) -> RunResult:
        """What the run has come to, so far if it goes on: its output as its prompt declares it, messages and calls."""
        return await self._results.result(by_id("run", run_id))

    async def stream(self, run_id: str) -> AsyncGenerator[RunEvent]:
        """The events of the run as values, from its beginning until it is over; the last one is `RunDone`.

        Leave it early with `contextlib.aclosing`. The run goes on all the same.
        """
        run = await self.get(run_id)
        async with aclosing(self._streams.run(run.thread_id, run.id, over=run.over)) as events:
            async for event in events:
                yield event

    async def wait(self, run_id: str, timeout: float | None = None) -> Run:
        """The run once it is over; `TimeoutError` if it is not so within `timeout` seconds."""
        by_kind("timeout", timeout, (int, float, NoneType), "a number of seconds")
        if timeout is None:
            return await self._until(run_id, ENDS, _is_over)
        async with asyncio.timeout(timeout):
            return await self._until(run_id, ENDS, _is_over)

    async def wait_for_somebody(self, run_id: str, reasons: Collection[str]) -> Run:
        """The run once it is over, or waits for one of these `reasons`: those that only somebody else can end."""
        return await self._until(
            run_id,
            ENDS | {"run.waiting"},
            lambda run: _is_over(run) or (run.waiting is not None and run.waiting.get("reason") in reasons),
        )

    async def _until(self, run_id: str, types: frozenset[str], enough: Callable[[Run], bool]) -> Run:
        """The run once it is as is wished, which events of these types may tell of."""
        with self._bus.subscribe(Topic(kind="run", id=run_id), types) as follower:
            while not enough(run := await self.get(run_id)):
                await follower.next(LOOK_AGAIN)
            return run

    async def cancel(self, run_id: str) -> Run:
        """Ask the run to stop; `RunOver` if it has ended. It is `cancelled` soon after, see `wait`."""
        run = await self.get(run_id)
        unit = RequestCancel(
            token=self._new_id("unit"), at=self._clock.now(), thread_id=run.thread_id, run_id=run_id
        )
        if isinstance(await self._store.commit(unit), Conflict):
            raise RunOver(f"The run {run_id!r} is already over.")
        self._motor.wake(run.thread_id)
        return await self.get(run_id)


def _is_over(run: Run) -> bool:
    return run.over
