"""Messages and values that a handler writes to its thread: with its result or not at all (API §1 `ThreadState`)."""

import asyncio

import pytest

import toolwright as tw
from tests.kit import Watched, calls
from tests.runtime.rig import running
from toolwright.core.errors import InvalidRequest, NotFound
from toolwright.core.state.memory import MemoryState
from toolwright.core.threads.message import Message
from toolwright.testing import ScriptedModel

pytestmark = pytest.mark.anyio


DONE: dict[str, object] = {"text": "Done."}


async def test_values_are_kept_with_the_result_and_read_by_the_same_call() -> None:
    read: list[object] = []

    @tw.tool(description="Keeps.")
    async def keep(state: tw.ThreadState) -> str:
        read.append(await state.get_value("n"))
        state.set_value("n", {"count": 1})
        state.set_value("gone", 1)
        state.set_value("gone", None)
        read.append(await state.get_value("n"))
        return "kept"

    @tw.tool(description="Reads.")
    async def look(state: tw.ThreadState) -> str:
        read.extend([await state.get_value("n"), await state.get_value("gone")])
        with pytest.raises(InvalidRequest):
            state.set_value("", 1)
        return "read"

    async with running(ScriptedModel([calls("keep", "look"), DONE]), [keep, look]) as rig:
        await rig.run()
    assert read == [None, {"count": 1}, {"count": 1}, None]


async def test_what_a_handler_says_is_said_once_if_the_next_call_is_settled_in_the_same_unit() -> None:
    @tw.tool(description="Says.")
    async def say(state: tw.ThreadState) -> str:
        state.inject_message("By the way.")
        return "said"

    note = tw.Tool.from_config(
        {
            "name": "note",
            "description": "Note.",
            "inputSchema": {"type": "object"},
            "executionType": "internal",
        }
    )
    async with running(ScriptedModel([calls("say", "note", "note"), DONE]), [say, note]) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
        texts = [message.content for message in await rig.transcript(thread.id)]
    assert (run.status, texts.count("By the way.")) == ("completed", 1)


async def test_what_a_handler_says_comes_behind_the_answers_of_its_step() -> None:
    said: list[str] = []

    @tw.tool(description="Says.")
    async def say(state: tw.ThreadState) -> str:
        said.append(state.inject_message("By the way.", "assistant"))
        said.append(state.inject_message("Mind this."))
        with pytest.raises(InvalidRequest, match="not 'system'"):
            state.inject_message("x", "system")
        return "said"

    @tw.tool(description="Nothing.")
    async def idle() -> str:
        return "idle"

    model = Watched([calls("say", "idle"), DONE])
    async with running(model, [say, idle]) as rig:
        run = await rig.run()
        told = await rig.transcript(run.thread_id)
        assert [m.id for m in told if m.content in ("By the way.", "Mind this.")] == said
        heard = [(m.role, m.content) for m in model.requests[1].messages]
        assert heard == [
            ("user", "Go"), ("assistant", ""), ("tool", "said"), ("tool", "idle"),
            ("assistant", "By the way."), ("user", "Mind this."),
        ]  # fmt: skip


async def test_a_call_reads_what_it_has_said_and_may_change_it() -> None:
    @tw.tool(description="Says.")
    async def say(state: tw.ThreadState) -> str:
        before = [message.id for message in await state.get_messages()]
        said = state.inject_message("By the way.")
        message = await state.get_message(said)
        assert message is not None and (message.role, message.content) == ("user", "By the way.")
        assert [message.id for message in await state.get_messages()] == [*before, said]
        assert [message.id for message in await state.get_messages(5, len(before))] == [said]
        state.update_message(said, "Never mind.")
        changed = await state.get_message(said)
        assert changed is not None and changed.content == "Never mind."
        return said

    model = Watched([calls("say"), DONE])
    async with running(model, [say]) as rig:
        run = await rig.run()
        told = await rig.transcript(run.thread_id)
        assert [(m.seq, m.role, m.content) for m in told][3] == (4, "user", "Never mind.")
        assert told[3].id == told[2].content
        assert model.requests[1].messages[-1].content == "Never mind."


async def test_a_call_that_has_ended_its_thread_says_nothing_more_to_it() -> None:
    @tw.tool(description="Ends.")
    async def end(state: tw.ThreadState) -> str:
        await state.terminate()
        await state.queue_message("Hello?")
        return ""

    async with running(ScriptedModel([calls("end")]), [end]) as rig:
        run = await rig.run()
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert "is terminated" in answer.content


async def test_a_message_is_changed_for_the_model_and_for_readers() -> None:
    @tw.tool(description="Changes.")
    async def change(state: tw.ThreadState) -> str:
        [first, *_] = await state.get_messages()
        state.update_message(first.id, "Stop")
        changed = await state.get_message(first.id)
        assert changed is not None
        assert (changed.content, (await state.get_messages())[0].content) == ("Stop", "Stop")
        assert await state.get_message("msg_none") is None
        with pytest.raises(NotFound):
            state.update_message("msg_none", "x")
        return "changed"

    model = Watched([calls("change"), DONE])
    async with running(model, [change]) as rig:
        run = await rig.run()
        assert model.requests[1].messages[0].content == "Stop"
        assert (await rig.transcript(run.thread_id))[0].content == "Stop"


async def test_a_queued_message_is_read_by_the_next_step_with_its_files() -> None:
    @tw.tool(description="Queues.")
    async def queue(state: tw.ThreadState) -> str:
        await state.queue_message(
            "Look at this", [tw.Attachment(name="a.txt", mime_type="text/plain", data="aGk=")]
        )
        return "queued"

    model = Watched([calls("queue"), DONE, DONE])
    async with running(model, [queue]) as rig:
        run = await rig.run()
        last = model.requests[-1].messages[-1]
        assert (last.role, last.content, [ref.path for ref in last.attachments]) == (
            "user", "Look at this", ["/attachments/a.txt"],
        )  # fmt: skip
        assert [each.id for each in await rig.rt.runs.list(thread_id=run.thread_id)] == [run.id]


async def test_a_message_queued_by_the_call_that_ends_the_session_begins_the_next_run() -> None:
    @tw.tool(description="Queues.")
    async def queue(state: tw.ThreadState) -> str:
        await state.queue_message("Once more")
        state.execution.stop_session()
        return "queued"

    turns = [{"when": "Once more", "text": "Again."}, calls("queue")]
    async with running(ScriptedModel(turns), [queue]) as rig:
        first = await rig.run()
        assert first.stop_reason == "session_stop"
        [second] = [run for run in await rig.rt.runs.list(thread_id=first.thread_id) if run.id != first.id]
        assert (await rig.rt.runs.wait(second.id, 10)).output == "Again."


@pytest.mark.idle_clock
async def test_what_a_cancelled_call_has_buffered_is_gone() -> None:
    begun = asyncio.Event()

    @tw.tool(description="Never ends.")
    async def write(state: tw.ThreadState) -> str:
        state.set_value("n", 1)
        state.inject_message("Never said.")
        await state.queue_message("Never read.")
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with running(ScriptedModel([calls("write")]), [write]) as rig:
        run = await rig.send()
        await begun.wait()
        await rig.rt.runs.cancel(run.id)
        assert (await rig.rt.runs.wait(run.id, 20)).status == "cancelled"
        assert await rig.store.children.value(run.thread_id, "n") is None
        assert not [m for m in await rig.transcript(run.thread_id) if "Never" in m.content]


async def test_the_calls_of_a_run_share_a_context_and_the_next_run_has_its_own() -> None:
    seen: list[dict[str, object]] = []

    @tw.tool(description="Shares.")
    async def share(state: tw.ThreadState) -> str:
        seen.append(dict(state.context))
        state.context["n"] = 1
        return ""

    async with running(ScriptedModel([calls("share", "share"), DONE]), [share]) as rig:
        thread = await rig.rt.threads.create("tester")
        for _ in range(2):
            await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 10)
    assert seen == [{}, {"n": 1}, {}, {"n": 1}]


async def test_a_thread_without_relatives_says_so() -> None:
    @tw.tool(description="Looks.")
    async def look(state: tw.ThreadState) -> str:
        assert (tuple(state.children), await state.get_child_thread("thr_x"), await state.get_parent_thread()) == (
            (), None, None,
        )  # fmt: skip
        with pytest.raises(NotFound):
            await state.terminate("thr_x")
        await state.notify_parent("Hello")
        return ""

    async with running(ScriptedModel([calls("look"), DONE]), [look]) as rig:
        run = await rig.run()
        [answer] = [m for m in await rig.transcript(run.thread_id) if m.role == "tool"]
        assert "This thread has no parent to notify." in answer.content


async def test_a_terminated_thread_takes_no_message() -> None:
    @tw.tool(description="Ends.")
    async def end(state: tw.ThreadState) -> str:
        await state.terminate()
        return ""

    async with running(ScriptedModel([calls("end")]), [end]) as rig:
        run = await rig.run()
        assert run.stop_reason == "session_stop"
        with pytest.raises(tw.ToolwrightError, match="is terminated"):
            await rig.rt.threads.send(run.thread_id, "Hello?")


async def test_the_state_in_memory_does_the_same_for_tests() -> None:
    @tw.tool(description="Adds.")
    async def add(a: int, b: int) -> int:
        return a + b

    @tw.tool(description="Uses everything.")
    async def use(state: tw.ThreadState) -> object:
        state.set_value("n", await state.get_value("n") or 1)
        said = state.inject_message("Hi")
        state.update_message(said, "Hello")
        state.queue_tool("add", {"a": 1, "b": 2})
        await state.queue_message("later")
        state.context["x"] = 1
        result = await state.invoke_tool("add", {"a": 1, "b": 2})
        message: Message | None = await state.get_message(said)
        assert message is not None
        return {"sum": result.result, "said": message.content}

    assert (await tw.Toolset([add, use]).call("use", {})).result == {"sum": 3, "said": "Hello"}
    state = MemoryState()
    assert (await state.invoke_tool("add")).error_code == "unknown_tool"
    assert (await state.get_parent_thread(), await state.get_child_thread("x"), state.children) == (
        None,
        None,
        (),
    )
    await state.terminate()
    assert state.terminated
