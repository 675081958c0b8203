"""Processes that delete a thread, and kill themselves before or after one of the required units."""

import asyncio

from tests.crash.dying import KillingStore
from tests.crash.forks import Order
from tests.databases import opened
from tests.play import AT, Drain, committed, create_thread, leave, new_id, post
from toolwright.adapters.memory import MemoryFiles
from toolwright.core.journal.store import Store
from toolwright.runtime.threads.deletion import Deletion
from toolwright.testing import ManualClock, MemoryBus

MESSAGES = 1_500


async def filled(store: Store) -> None:
    """A thread with more rows than one piece, and another thread."""
    for thread_id, count in (("th_1", MESSAGES), ("th_2", 1)):
        await create_thread(store, thread_id)
        first = post(thread_id)
        await committed(store, first)
        await asyncio.gather(*[committed(store, post(thread_id)) for _ in range(count - 1)])
        drain = Drain(store, thread_id, first.run)
        await drain.claim([each.event_id for each in await store.unread(thread_id)])
        await drain.end(AT)
        wake = await store.wake(thread_id)
        assert wake is not None
        await committed(store, leave(thread_id, wake.gen))


async def run(order: Order) -> None:
    store = await opened(f"sqlite:///{order['folder']}/journal.db", MemoryBus())
    await filled(store)
    killing = KillingStore(store, {"unit": order["unit"], "when": order["when"]})
    deletion = Deletion(killing, lambda _: None, MemoryBus(), MemoryFiles(), ManualClock(), new_id)  # type: ignore[arg-type]  # reads pass through
    await deletion.delete("th_1", cancel=False)
