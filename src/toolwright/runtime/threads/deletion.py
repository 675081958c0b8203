"""Deletion of threads, with their child threads, their rows, and finally the bytes of their files."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

from toolwright.core.agents.agent import home_thread_id_of
from toolwright.core.errors import InvalidRequest, NotFound, StoreError, ThreadBusy
from toolwright.core.journal.retention import DroppedBytes, DropThread, ForgetBytes
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Committed, RequestCancel
from toolwright.core.ports import Bus, Clock, FileStore, NewId
from toolwright.core.threads.event import Topic
from toolwright.core.threads.thread import Thread
from toolwright.runtime.journal import by_id, sweep_rows

log = logging.getLogger("toolwright.runtime")

PATIENCE = 30.0  # seconds that runs have to end after a cancel request
LOOK_AGAIN = 0.5  # seconds between reads of the journal: another process can execute the run
# much longer than between storing bytes and committing the row that names them
BYTES_KEPT = timedelta(minutes=15)
PAGE = 200


class Deletion:
    """Deletes threads. Rows left by a crash are deleted by the next deletion or by housekeeping."""

    def __init__(
        self,
        store: Store,
        wake: Callable[[str], None],
        bus: Bus,
        files: FileStore,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._store = store
        self._wake = wake
        self._bus = bus
        self._files = files
        self._clock = clock
        self._new_id = new_id

    async def delete(self, thread_id: str, *, cancel: bool) -> None:
        """Delete the thread permanently; see `Threads.delete`."""
        thread = await self._store.thread(by_id("thread", thread_id))
        if thread is None:
            raise _no_thread(thread_id)
        if await self.is_home(thread):
            raise InvalidRequest(
                f"The thread {thread_id!r} is the home of the agent {thread.agent!r}. Delete the agent instead."
            )
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not await self._drop(thread_id):
            if not cancel:
                raise ThreadBusy(
                    f"A run is in progress in the thread {thread_id!r} or in a child thread. "
                    "Cancel it, or delete with cancel."
                )
            await self._end_runs(thread_id, deadline)
        try:
            await self.sweep()
            await self.remove_bytes()
        except StoreError as error:  # the thread is deleted; its remaining rows are deleted later
            log.warning(
                "The thread %s is deleted, but some of its rows and files are not: %s", thread_id, error
            )

    async def is_home(self, thread: Thread) -> bool:
        """Return whether the thread is the home thread of an existing agent, declared or configured."""
        if thread.id != home_thread_id_of(thread.agent):
            return False
        agents = self._store.agents
        was_configured = await agents.agent(thread.agent, 1) is not None
        return not was_configured or await agents.agent(thread.agent) is not None

    async def sweep(self) -> int:
        """Delete the remaining rows of deleted threads, in batches. Return their number."""
        return await sweep_rows(self._store, self._clock, self._new_id)

    async def remove_bytes(self) -> int:
        """Delete the bytes of deleted threads' files, unless new or used by other rows. Return their number."""
        total, after = 0, ""
        while notes := await self._store.retention.dropped_bytes(after, PAGE):
            after, done = notes[-1].digest, list[DroppedBytes]()
            for note in notes:
                is_removed = not note.needed and await self._files.remove(
                    note.digest, self._clock.now() - BYTES_KEPT
                )
                total += is_removed
                if is_removed or note.needed:
                    done.append(note)
            if done:
                at = self._clock.now()
                await self._store.commit(ForgetBytes(token=self._new_id("unit"), at=at, dropped=tuple(done)))
        return total

    async def _drop(self, thread_id: str) -> bool:
        """Delete the thread. Return False while a run is in progress in it."""
        unit = DropThread(token=self._new_id("unit"), at=self._clock.now(), thread_id=thread_id)
        answer = await self._store.commit(unit)
        if isinstance(answer, Committed):
            return True
        if answer.guard == "thread":
            raise _no_thread(thread_id)
        return False

    async def _end_runs(self, thread_id: str, deadline: float) -> None:
        """Cancel the runs of the thread and its child threads, and wait until they have ended."""
        for busy_id, run_id in await self._store.retention.open_runs(thread_id):
            unit = RequestCancel(
                token=self._new_id("unit"), at=self._clock.now(), thread_id=busy_id, run_id=run_id
            )
            with self._bus.subscribe(Topic(kind="thread", id=busy_id)) as follower:
                # Subscribe first: otherwise the end of the run could be missed.
                await self._store.commit(unit)  # a conflict means that it has already ended
                self._wake(busy_id)
                while (run := await self._store.run(run_id)) is not None and not run.over:
                    if asyncio.get_running_loop().time() > deadline:
                        raise ThreadBusy(
                            f"The run {run_id!r} was asked to stop and has not ended within {PATIENCE:.0f} seconds. "
                            "Make sure that the app is being served, then delete the thread again."
                        )
                    await follower.next(LOOK_AGAIN)


def _no_thread(thread_id: str) -> NotFound:
    return NotFound(f"There is no thread {thread_id!r}.")
