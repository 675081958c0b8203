"""A state that is kept after its call: reads work, and writes are rejected (DESIGN 1.6)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import toolwright as tw
from tests.kit import calls
from tests.runtime.rig import Rig, running
from tests.runtime.test_state_misuse import later
from toolwright.adapters.memory import MemoryFiles
from toolwright.core.errors import InvalidRequest
from toolwright.core.threads.event import Topic
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio
DONE: dict[str, object] = {"text": "Done."}
Write = Callable[[tw.ThreadState], Awaitable[object]]

WRITES: dict[str, Write] = {
    "set_env": later(lambda s: s.set_env("LATE", "late-value-1")),
    "set_value": later(lambda s: s.set_value("late", 1)),
    "queue_message": lambda s: s.queue_message("late"),
    "queue_tool": later(lambda s: s.queue_tool("keep")),
    "invoke_tool": lambda s: s.invoke_tool("keep"),
    "inject_message": later(lambda s: s.inject_message("late")),
    "update_message": later(lambda s: s.update_message("msg", "late")),
    "write_file": lambda s: s.write_file("/late", "x"),
    "delete_file": lambda s: s.delete_file("/there"),
    "notify_parent": lambda s: s.notify_parent("late"),
    "terminate": lambda s: s.terminate(),
    "terminate a child": lambda s: s.terminate("thr_x"),
    "stop_session": later(lambda s: s.execution.stop_session()),
    "stop_side": later(lambda s: s.execution.stop_side()),
    "emit": later(lambda s: s.emit("late")),
    "run_code": later(lambda s: s.run_code("1")),
}


async def finished(rig: Rig) -> str:
    run = await rig.run()
    assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", "Done.")
    return run.thread_id


async def test_what_a_kept_state_is_to_write_is_refused_and_it_may_still_read() -> None:
    kept: list[tw.ThreadState] = []

    @tw.tool(description="Keeps its state.")
    async def keep(state: tw.ThreadState) -> str:
        kept.append(state)
        await state.write_file("/there", "x")
        state.inject_message("By the way.")
        return "kept"

    @tw.tool(description="Writes to another's state.")
    async def late(state: tw.ThreadState) -> str:
        for name, write in WRITES.items():
            with pytest.raises(InvalidRequest, match=r"^This call has ended: "):
                await write(kept[0])
                pytest.fail(name)
        kept[0].progress(1)
        read = kept[0]
        assert await read.env("LATE") is None and await read.get_value("late") is None
        assert await read.read_file("/there") == b"x" and len(await read.get_messages()) == 5
        return "late"

    async with running(ScriptedModel([calls("keep"), calls("late"), DONE]), [keep, late]) as rig:
        thread_id = await finished(rig)
        said = [message.content for message in await rig.transcript(thread_id)]
        assert said == ["Go", "", "kept", "By the way.", "", "late", "Done."]
        assert [file.path for file in await rig.rt.files.list(thread_id)] == ["/there"]
        events = await rig.rt.events.list(Topic(kind="thread", id=thread_id))
        assert "late" not in [event.type for event in events]


async def test_a_task_that_its_call_has_forgotten_hears_that_the_call_is_over() -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    heard: list[str] = []
    tasks: list[asyncio.Task[None]] = []

    @tw.tool(description="Leaves a task behind.")
    async def leave(state: tw.ThreadState) -> str:
        kin = await state.get_parent_thread()
        assert kin is None

        async def forgotten() -> None:
            began.set()
            await go_on.wait()
            try:
                await state.write_file("/late", "x")
            except InvalidRequest as error:
                heard.append(str(error))

        tasks.append(asyncio.create_task(forgotten()))
        await began.wait()
        return "left"

    async with running(ScriptedModel([calls("leave"), DONE]), [leave]) as rig:
        thread_id = await finished(rig)
        go_on.set()
        await asyncio.wait(tasks, timeout=10)
        assert heard == ["This call has ended: it can no longer change its thread."]
        assert await rig.rt.files.list(thread_id) == []


async def test_a_call_whose_time_is_over_is_over_for_its_thread_too() -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    @tw.tool(description="Works on when its time is over.", timeout=0.05)
    def slow(state: tw.ThreadState) -> str:
        asyncio.run_coroutine_threadsafe(over.wait(), loop).result(10)
        try:
            state.set_value("late", 1)
        except InvalidRequest as error:
            loop.call_soon_threadsafe(heard.put_nowait, str(error))
        return ""

    async with running(ScriptedModel([calls("slow"), DONE]), [slow]) as rig:
        thread_id = await finished(rig)
        over.set()
        assert (await asyncio.wait_for(heard.get(), 10)).startswith("This call has ended: ")
        assert await rig.store.children.value(thread_id, "late") is None


async def test_a_write_that_is_under_way_when_the_call_ends_is_refused() -> None:
    putting, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryFiles):
        async def put(self, content: bytes) -> str:
            putting.set()
            await go_on.wait()
            return await super().put(content)

    tasks: list[asyncio.Task[object]] = []

    @tw.tool(description="Leaves a task behind.")
    async def leave(state: tw.ThreadState) -> str:
        async def write() -> object:
            return await state.write_file("/late", "x")

        tasks.append(asyncio.create_task(write()))
        await putting.wait()
        return "left"

    async with running(ScriptedModel([calls("leave"), DONE]), [leave], files=Slow()) as rig:
        thread_id = await finished(rig)
        go_on.set()
        with pytest.raises(InvalidRequest, match="This call has ended"):
            await asyncio.wait_for(tasks[0], 10)
        assert await rig.rt.files.list(thread_id) == []
