"""Units of one thread tree lock its threads in one order on Postgres, which avoids deadlocks."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.conformance.test_children import done, report, run_of, spawn, speak
from tests.conformance.test_mcp import parent, question
from tests.conformance.test_spaces import act, made, message, says, space
from tests.play import AT, Drain, begun, committed, draft
from tests.postgres_server import fresh_database

from toolwright.adapters.store.opening import open_postgres
from toolwright.adapters.store.postgres.connection import Connection, connect
from toolwright.core.journal.child_effects import CancelChildren, Notify, SetValue, Terminate
from toolwright.core.journal.effects import Effect
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Claim, Result

pytestmark = pytest.mark.anyio

OURS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = 'toolwright' AND pid <> pg_backend_pid()"
)
WAITING = f"{OURS} AND wait_event_type = 'Lock'"
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    async with fresh_database() as one:
        yield one


async def at_work(store: Store, call_id: str) -> Drain:
    """Create the drain of a child `th_2` for whose end a call of `th_1` waits."""
    await done(store, spawn(report=call_id))
    drain = Drain(store, "th_2", run_of("th_2", "run_th_2"))
    await drain.do(
        drain.unit(Claim, {"status": "running", "held": True, "started_at": AT}, read=("msg_th_2",))
    )
    return drain


async def until(watcher: Connection, query: str, count: int) -> None:
    async with asyncio.timeout(10):
        while True:
            if await watcher.fetchval(query) == count:
                return


def word() -> Notify:
    notice = report(None).notice
    assert notice is not None
    return Notify(thread_id="th_1", notice=notice)


@pytest.mark.parametrize(
    "down", [speak("said"), Terminate(thread_id="th_2"), CancelChildren(thread_id="th_1")]
)
@pytest.mark.parametrize("up", ["report", "notify"])
async def test_word_up_and_down_the_family_at_once_is_no_deadlock(url: str, up: str, down: Effect) -> None:
    store = await open_postgres(url, lambda _: None)
    parent = await begun(store)
    waiting = parent.call("waiting")
    await parent.answer(waiting)
    child = await at_work(store, waiting.id)
    told = report(waiting.id) if up == "report" else word()
    told_first = (SetValue(thread_id="th_2", key="a", value="1"), told)
    moved = (draft("moved"),)
    holder, watcher = await connect(url), await connect(url)
    await holder.execute("BEGIN")
    await holder.execute("SELECT id FROM threads FOR UPDATE")
    both = asyncio.gather(
        committed(store, parent.unit(Result, effects=(down,), events=moved)),
        committed(store, child.unit(Result, effects=told_first, events=moved)),
    )
    await until(watcher, WAITING, 2)
    await holder.execute("COMMIT")
    await both
    await holder.close()
    await store.close()
    await until(watcher, OURS, 0)  # their counts are reported after they have ended
    assert await watcher.fetchval(DEADLOCKS) == 0
    await watcher.close()


async def test_a_question_in_a_space_and_a_message_of_its_thread_there_at_once_are_no_deadlock(
    url: str,
) -> None:
    store = await open_postgres(url, lambda _: None)
    drain, above = await parent(store)
    await committed(store, act(made(space())))
    holder, watcher = await connect(url), await connect(url)
    await holder.execute("BEGIN")
    await holder.execute("SELECT id FROM spaces FOR UPDATE")
    asking = asyncio.create_task(committed(store, act(says(message()), question(above))))
    await until(watcher, WAITING, 1)
    speaking = asyncio.create_task(committed(store, drain.unit(Result, effects=(says(message()),))))
    await until(watcher, WAITING, 2)
    await holder.execute("COMMIT")
    await asyncio.gather(asking, speaking)
    await holder.close()
    await store.close()
    await until(watcher, OURS, 0)
    assert await watcher.fetchval(DEADLOCKS) == 0
    await watcher.close()
