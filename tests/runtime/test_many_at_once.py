"""Very many calls in one answer, very many files in one thread: each costs as much as the first one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.runtime.rig import running
from tests.runtime.test_loop import add, calling, outside
from toolwright.core.journal.store import Store
from toolwright.core.journal.units import Advance, Unit
from toolwright.core.threads.message import Message
from toolwright.testing import FunctionModel, MemoryBus, MemoryStore, ScriptedModel

pytestmark = pytest.mark.anyio

MANY = 2_000
DONE = {"text": "Done."}
internal = tw.Tool.from_config(
    {"name": "note", "description": "Note.", "inputSchema": {"type": "object"}, "executionType": "internal"}
)
unwaited = tw.Tool.from_config(
    {
        "name": "later",
        "description": "Later.",
        "inputSchema": {"type": "object"},
        "executionType": "external",
        "isAsync": True,
    }
)


@pytest.mark.parametrize(
    ("name", "args"),
    [("nobody", {}), ("add", {"a": "x"}), ("note", {}), ("later", {}), ("add", {"a": 1, "b": 2})],
)
async def test_thousands_of_calls_in_one_answer_leave_others_their_turns(
    name: str, args: dict[str, Any]
) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    model = ScriptedModel([{"calls": [{"name": name, "args": args}] * MANY}, DONE])
    async with running(model, [add, outside, internal, unwaited]) as rig:
        run = await rig.send()
        other = asyncio.create_task(others())
        await asyncio.sleep(0)
        before = turns
        assert (await rig.rt.runs.wait(run.id, 60)).status == "completed"
        other.cancel()
        assert turns - before >= 3  # a journal in memory never makes a task wait: the drain pauses by itself
        results = [_results(unit) for unit in rig.store.units]
        assert (sum(results), max(results)) == (MANY, 1 if args.get("b") else 100)


def _results(unit: Unit) -> int:
    return sum(message.role == "tool" for message in unit.messages) if isinstance(unit, Advance) else 0


async def test_a_file_that_a_message_takes_the_name_of_is_numbered_again() -> None:
    attachment = tw.Attachment(name="chart.txt", mime_type="text/plain", data="YWJj")
    posted = asyncio.Event()

    @tw.tool(description="Draw.")
    async def draw(state: tw.ThreadState) -> str:
        await state.queue_message("look", [attachment])
        await rig.rt.threads.send(state.thread_id, "mine", [attachment])
        posted.set()
        return "Drawn."

    model = ScriptedModel([calling("draw", args={}), DONE, DONE, DONE])
    async with running(model, [draw]) as rig:
        run = await rig.send()
        assert (await rig.rt.runs.wait(run.id, 30)).status == "completed"
        said = {m.content: [ref.path for ref in m.attachments] for m in await rig.transcript(run.thread_id)}
        assert said["mine"] == ["/attachments/chart.txt"]
        files = {file.path for file in await rig.rt.files.list(run.thread_id)}
        assert files == {"/attachments/chart.txt", "/attachments/chart-2.txt"}
        if "look" in said:  # read by this run or the next
            assert said["look"] == ["/attachments/chart-2.txt"]


class CountedReads(MemoryStore):
    """Counts how often all files of a thread are read."""

    whole = 0

    async def files(self, thread_id: str) -> Any:  # as in the store
        self.whole += 1
        return await super().files(thread_id)


async def test_a_new_file_does_not_cost_a_look_at_all_those_that_are_there() -> None:
    attachment = tw.Attachment(name="a.txt", mime_type="text/plain", data="YWJj")
    kept: list[CountedReads] = []

    async def store(bus: MemoryBus) -> Store:
        kept.append(CountedReads(bus.publish))
        return kept[0]

    @tw.tool(description="Draw.")
    async def draw(state: tw.ThreadState) -> tw.ToolResult:
        await state.write_file("/b.txt", "b")
        await state.stat_file("/b.txt")
        await state.read_file("/attachments/a.txt")
        return tw.ToolResult.ok("Drawn.", (attachment,))

    model = ScriptedModel([calling(*["draw"] * 30), DONE])
    async with running(model, [draw], store=store) as rig:
        thread = await rig.rt.threads.create("tester")
        for _ in range(20):
            run = await rig.rt.threads.send(thread.id, "Go", [attachment])
            await rig.rt.runs.wait(run.id, 30)
        assert kept[0].whole == 0
        names = {file.path for file in await rig.rt.files.list(thread.id)}
        expected = {"/b.txt", "/attachments/a.txt"} | {f"/attachments/a-{n}.txt" for n in range(2, 621)}
        assert names == expected


async def test_slow_runs_of_one_person_leave_slots_for_another(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def answer(messages: Sequence[Message]) -> dict[str, Any]:
        if messages[-1].content == "slow":
            await gate.wait()
        return {"text": "Done."}

    agent = tw.Agent("helper", instructions="Help.", model=FunctionModel(answer))
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'fair.db'}", concurrency=5)
    async with tw.App(agents=[agent]).runtime(settings) as rt:

        async def send(user: str, text: str) -> str:
            thread = await rt.threads.create("helper", user_id=user)
            return (await rt.threads.send(thread.id, text)).id

        slow = [await send("ann", "slow") for _ in range(20)]
        quick = await send("bob", "quick")
        assert (await rt.runs.wait(quick, 60)).output == "Done."
        states = [(await rt.runs.get(each)).status for each in slow]
        assert "completed" not in states and states.count("queued") >= 16
        gate.set()
        assert {(await rt.runs.wait(each, 60)).status for each in slow} == {"completed"}
