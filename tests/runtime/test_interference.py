"""A cancellation, and a joining message, before and after every unit of a run, placed by barriers."""

import asyncio
from typing import Any, get_args

import pytest

import toolwright as tw
from tests.databases import OpenStore, store_on
from tests.runtime.interfering import at, cancelled_at
from tests.runtime.rig import Rig, assert_valid, running
from tests.runtime.test_loop import calling, outside
from toolwright.core.journal.rows import Guard
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance, Committed, Conflict, Result, Unit
from toolwright.core.model import Model
from toolwright.runtime.context.commit import REACTIONS
from toolwright.testing import MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio


store = store_on("memory", "postgres")


UNITS = 7  # of the undisturbed run after its PostMessage: claim, answer, four results, answer
each_way = pytest.mark.parametrize("parallel", [1, 4])  # calls one after another, and in parallel


@tw.tool(description="Add.", read_only=True)
async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)  # let the others run
    return a + b


def model() -> Model:
    return ScriptedModel(
        [calling("add", "add", "add", "add"), {"text": "Done."}, {"text": "More."}, {"text": "Yet."}]
    )


@each_way
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, UNITS + 1))
async def test_a_cancel_at_any_point_ends_in_a_valid_transcript(
    n: int, when: str, store: OpenStore, parallel: int
) -> None:
    async with running(model(), [add], store=store, prompt_options={"parallel": parallel}) as rig:
        thread_id, refused = await cancelled_at(rig, n, when)
        assert refused == (n == UNITS and when == "after")
        await nothing_is_left(rig, thread_id)


@each_way
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, UNITS + 1))
async def test_a_message_at_any_point_is_read_once_by_the_returned_run(
    n: int, when: str, store: OpenStore, parallel: int
) -> None:
    async with running(model(), [add], store=store, prompt_options={"parallel": parallel}) as rig:
        thread = await rig.rt.threads.create("tester")
        told: list[str] = []

        async def join(_: int, __: Unit) -> None:
            told.append((await rig.rt.threads.post(thread.id, "And this")).run_id)

        rig.store.before, rig.store.after, acted = at(n, when, join)
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        await acted.wait()
        later = await rig.rt.runs.wait(told[0], 10)
        assert (run.status, later.status) == ("completed", "completed")
        assert (later.id == run.id) == (not (n == UNITS and when == "after"))
        messages = await rig.transcript(thread.id)
        [joined] = [message for message in messages if message.content == "And this"]
        assert joined.run_id == told[0]
        assert messages[-1].role == "assistant", "the model has seen the message"
        await nothing_is_left(rig, thread.id)


@each_way
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("n", range(1, UNITS + 1))
async def test_a_message_and_then_a_cancel_at_any_point_lose_nothing(
    n: int, when: str, store: OpenStore, parallel: int
) -> None:
    async with running(model(), [add], store=store, prompt_options={"parallel": parallel}) as rig:
        thread = await rig.rt.threads.create("tester")
        told: list[str] = []

        async def both(_: int, __: Unit) -> None:
            told.append((await rig.rt.threads.post(thread.id, "And this")).run_id)
            await rig.rt.runs.cancel(told[0])

        rig.store.before, rig.store.after, acted = at(n, when, both)
        await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        await acted.wait()
        later = await rig.rt.runs.wait(told[0], 10)
        assert later.status == "cancelled"
        said = [m.content for m in await rig.transcript(thread.id) if m.role == "user"]
        assert said == ["Go", "And this"]
        await nothing_is_left(rig, thread.id)


async def test_a_message_at_the_step_limit_is_kept_in_the_transcript(store: OpenStore) -> None:
    async with running(ScriptedModel([calling("add")]), [add], max_steps=1, store=store) as rig:
        thread = await rig.rt.threads.create("tester")

        async def join(_: int, __: Unit) -> None:
            await rig.rt.threads.post(thread.id, "And this")

        rig.store.before, rig.store.after, acted = at(3, "before", join)
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        await acted.wait()
        assert run.stop_reason == "max_steps"
        assert [m.content for m in await rig.transcript(thread.id) if m.role == "user"] == ["Go", "And this"]
        await nothing_is_left(rig, thread.id)


async def test_a_cancelled_wait_answers_the_model_and_a_late_result_still_arrives(store: OpenStore) -> None:
    script = ScriptedModel([calling("ask_outside", args={}), {"text": "Never."}, {"text": "Read."}])
    async with running(script, [outside], inline_wait=0.0, store=store) as rig:
        thread = await rig.rt.threads.create("tester")

        async def cancel(_: int, unit: Unit) -> None:
            assert isinstance(unit, Advance)
            await rig.rt.runs.cancel(unit.run.id)

        rig.store.before, rig.store.after, acted = at(3, "after", cancel)  # once it is suspended
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        await acted.wait()
        assert run.status == "cancelled"
        [call] = await rig.rt.calls.list()
        assert call.status == "pending"
        assert await rig.rt.calls.submit(run.id, call.id, "late") == "inbox"
        # the run that reads the late result can be in the middle of a step
        assert_valid(await rig.rt.runs.messages(run.id))


async def test_a_run_that_is_cancelled_while_it_skips_keeps_its_messages(store: OpenStore) -> None:
    turns: list[object] = [{"calls": [{"name": "skip", "args": {}}]}]
    async with running(ScriptedModel(turns), store=store, options={"toolkits": ["spaces"]}) as rig:

        async def cancel(_: int, unit: Unit) -> None:
            assert isinstance(unit, Advance)
            await rig.rt.runs.cancel(unit.run.id)

        # before the result, which ends the run
        rig.store.before, rig.store.after, acted = at(3, "before", cancel)
        event = await rig.rt.inboxes.trigger("tester", "billing")
        await acted.wait()
        [run] = await rig.rt.runs.list()
        assert (await rig.rt.runs.wait(run.id, 10)).status == "cancelled"
        assert [message.kept for message in await rig.transcript(event.thread_id)] == [True, True, True]


async def nothing_is_left(rig: Rig, thread_id: str) -> None:
    assert_valid(await rig.transcript(thread_id))
    assert await rig.store.unread(thread_id) == []
    assert (await rig.rt.threads.get(thread_id)).run_id is None
    assert [
        call for call in await rig.rt.calls.list(status=None) if call.status in ("created", "running")
    ] == []


class Refusing:
    """A store that rejects the first result of a run by a guard."""

    def __init__(self, inner: Store, guard: Guard) -> None:
        self._inner = inner
        self._guard: Guard | None = guard

    async def commit(self, unit: Unit) -> Committed | Conflict:
        if isinstance(unit, Result) and self._guard is not None:
            guard, self._guard = self._guard, None
            return Conflict(guard=guard)
        return await self._inner.commit(unit)

    def __getattr__(self, name: str) -> Any:  # reads pass through
        return getattr(self._inner, name)


def test_a_run_has_a_reaction_to_every_guard() -> None:
    assert {*REACTIONS} == {*get_args(Guard)}


OF_RESULTS = [
    guard for guard, how in REACTIONS.items() if how in ("rebuilt", "space", "refused", "cancelled")
]
"""The guards that the result of a call can fail while its run still owns the thread."""


@pytest.mark.parametrize("guard", OF_RESULTS)
async def test_after_every_guard_of_a_result_the_run_goes_on_at_once_in_the_same_hold(
    guard: Guard, store: OpenStore
) -> None:
    async def opening(bus: MemoryBus) -> Store:
        return Refusing(await store(bus), guard)  # type: ignore[return-value]  # reads go through

    script = ScriptedModel([calling("add"), {"text": "Done."}])
    async with running(script, [add], store=opening) as rig:
        run = await rig.run()
        [result] = [message for message in await rig.transcript(run.thread_id) if message.role == "tool"]
        if REACTIONS[guard] == "refused":
            assert "nothing of this call was written" in result.content
        elif guard != "cancel":
            assert (run.status, result.content) == ("completed", "3")
        view = await rig.store.view(run.thread_id)
        assert view is not None
        assert view.thread.epoch == 1, "nobody has taken the thread over"
        await nothing_is_left(rig, run.thread_id)
