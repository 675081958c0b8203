"""Invalid arguments of a handler's state are rejected immediately, with one sentence, and nothing has changed."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import toolwright as tw
from tests.databases import sqlite_journal
from tests.kit import calls
from tests.runtime.rig import Rig, running
from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.journal.store import Store
from toolwright.core.state.memory import MemoryState
from toolwright.testing import CodeSandbox, MemoryBus, ScriptedModel

pytestmark = pytest.mark.anyio
State = Any  # the arguments have every wrong type
HALF = "\ud800"
Wrong = Callable[[State], Awaitable[object]]


def later(member: Callable[[State], object]) -> Wrong:
    """Return a synchronous member as an asynchronous one."""

    async def called(state: State) -> object:
        return member(state)

    return called


WRONG: dict[str, tuple[Wrong, str]] = {
    "env of a number": (lambda s: s.env(5), "The name of a value must be text, not 5."),
    "env of a list": (
        lambda s: s.env(["x"]),
        "The name of a value must be text, not a value of the type list.",
    ),
    "env_type of a dict": (
        lambda s: s.env_type({}),
        "The name of a value must be text, not a value of the type dict.",
    ),
    "set_env of a number": (later(lambda s: s.set_env(5, "x")), "env has the name 5"),
    "set_env of a list": (later(lambda s: s.set_env(["x"], "x")), r"env has the name \['x'\]"),
    "set_env to a number": (later(lambda s: s.set_env("A", 5)), "env.A must be text"),
    "set_env to half a character": (later(lambda s: s.set_env("A", HALF)), "env.A must be text without NUL"),
    "set_env of a type": (later(lambda s: s.set_env("A", "x", "other")), "env.A has a type that is neither"),
    "get_messages of text": (
        lambda s: s.get_messages("a"),
        "The limit of messages must be a non-negative integer, not 'a'.",
    ),
    "get_messages below 0": (
        lambda s: s.get_messages(-1),
        "The limit of messages must be a non-negative integer, not -1.",
    ),
    "get_messages from -1": (
        lambda s: s.get_messages(5, -1),
        "The offset of messages must be a non-negative integer, not -1.",
    ),
    "get_messages of halves": (
        lambda s: s.get_messages(1.5),
        "The limit of messages must be a non-negative integer, not 1.5.",
    ),
    "get_message": (
        lambda s: s.get_message(["x"]),
        "The id of a message must be text, not a value of the type list.",
    ),
    "inject_message": (later(lambda s: s.inject_message(5)), "A message must be text, not 5."),
    "inject_message of nothing": (
        later(lambda s: s.inject_message("")),
        "A message must be non-empty text.",
    ),
    "inject_message of NUL": (
        later(lambda s: s.inject_message("\0")),
        "A message must be text without NUL or lone surrogates.",
    ),
    "inject_message as a list": (
        later(lambda s: s.inject_message("x", ["user"])),
        "must be 'user' or 'assistant', not a",
    ),
    "update_message": (later(lambda s: s.update_message(5, "x")), "The id of a message must be text, not 5."),
    "queue_message": (lambda s: s.queue_message(5), "A message must be text, not 5."),
    "queue_message of nothing": (lambda s: s.queue_message(""), "A message must be non-empty text."),
    "queue_message with a file": (
        lambda s: s.queue_message("x", 5),
        "The attachments must be a list of .*, not 5.",
    ),
    "queue_message with files": (
        lambda s: s.queue_message("x", ["a"]),
        "The attachments must be a list of .*, not one with 'a'.",
    ),
    "queue_tool": (later(lambda s: s.queue_tool(5)), "The name of a tool must be text, not 5."),
    "queue_tool of None": (later(lambda s: s.queue_tool(None)), "The name of a tool must be text, not None."),
    "queue_tool of half a character": (
        later(lambda s: s.queue_tool(HALF)),
        "The name of a tool must be text without NUL",
    ),
    "queue_tool with a list": (
        later(lambda s: s.queue_tool("u", [1])),
        "an object or its JSON text, not a value of the type list",
    ),
    "queue_tool with a number": (later(lambda s: s.queue_tool("u", 0)), "an object or its JSON text, not 0."),
    "queue_tool with half a character": (
        later(lambda s: s.queue_tool("u", HALF)),
        "The JSON of a tool's arguments must be text without",
    ),
    "queue_tool with bytes": (
        later(lambda s: s.queue_tool("u", {"a": b""})),
        "a is of the type bytes, which JSON cannot represent",
    ),
    "invoke_tool": (lambda s: s.invoke_tool(5), "The name of a tool must be text, not 5."),
    "invoke_tool with a list": (
        lambda s: s.invoke_tool("u", [1]),
        "an object or its JSON text, not a value of the type list",
    ),
    "get_child_thread": (
        lambda s: s.get_child_thread(["x"]),
        "The reference of a child must be text, not a value of the type list.",
    ),
    "get_child_thread of a dict": (
        lambda s: s.get_child_thread({}),
        "The reference of a child must be text, not a value of the type dict.",
    ),
    "get_child_thread of half": (
        lambda s: s.get_child_thread(HALF),
        "The reference of a child must be text without NUL",
    ),
    "terminate": (
        lambda s: s.terminate(["x"]),
        "The reference of a child must be text, not a value of the type list.",
    ),
    "terminate of half": (lambda s: s.terminate(HALF), "The reference of a child must be text without NUL"),
    "get_value": (
        lambda s: s.get_value(["x"]),
        "The key of a value must be text, not a value of the type list.",
    ),
    "get_value of None": (lambda s: s.get_value(None), "The key of a value must be text, not None."),
    "get_value of half": (lambda s: s.get_value(HALF), "The key of a value must be text without NUL"),
    "set_value": (later(lambda s: s.set_value(5, 1)), "The key of a value must be text, not 5."),
    "set_value of no name": (
        later(lambda s: s.set_value("", 1)),
        "The key of a value must have 1 to 200 characters, not 0.",
    ),
    "set_value of a long name": (
        later(lambda s: s.set_value("k" * 201, 1)),
        "The key of a value must have 1 to 200 characters, not 201.",
    ),
    "set_value to bytes": (later(lambda s: s.set_value("k", b"")), "The value is of the type bytes"),
    "set_value to too much": (
        later(lambda s: s.set_value("k", "x" * 1_048_575)),
        "The value 'k' has 1048577 bytes as JSON. At most 1048576 are allowed.",
    ),
    "read_file": (lambda s: s.read_file(5), "a path must be text"),
    "write_file": (lambda s: s.write_file(5, "x"), "a path must be text"),
    "write_file of a number": (lambda s: s.write_file("/a", 5), "A file must be bytes or text, not 5."),
    "write_file of a type": (lambda s: s.write_file("/a", "x", 5), "A MIME type must be text, not 5."),
    "list_files": (lambda s: s.list_files(5), "A folder must be text, not 5."),
    "find_files": (lambda s: s.find_files(5), "A pattern must be text, not 5."),
    "stat_file": (lambda s: s.stat_file(["x"]), "a path must be text"),
    "delete_file": (lambda s: s.delete_file(None), "a path must be text"),
    "run_code": (later(lambda s: s.run_code(5)), "The code must be text"),
    "run_code with a list": (
        later(lambda s: s.run_code("1", [1])),
        "The options of run_code must be a mapping",
    ),
    "emit": (later(lambda s: s.emit(5)), "The type of an event must be non-empty text .*, not 5."),
    "emit of NaN": (later(lambda s: s.emit("x", float("nan"))), "cannot be written as JSON"),
    "progress": (
        later(lambda s: s.progress("a")),
        "The done of a progress must be a finite number, not 'a'.",
    ),
    "progress of NaN": (
        later(lambda s: s.progress(float("nan"))),
        "The done of a progress must be a finite number, not nan.",
    ),
    "progress of True": (
        later(lambda s: s.progress(True)),
        "The done of a progress must be a finite number, not True.",
    ),
    "progress of text": (
        later(lambda s: s.progress(1, "2")),
        "The total of a progress must be a finite number, not '2'.",
    ),
    "progress with a number": (
        later(lambda s: s.progress(1, 2, 3)),
        "The text of a progress must be text, not 3.",
    ),
}


async def told(rig: Rig) -> str:
    """Return the result of the model's first call."""
    run = await rig.run()
    assert (run.status, run.output) == ("completed", "Done.")
    messages = await rig.transcript(run.thread_id)
    assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert await rig.rt.threads.env(run.thread_id) == {} and await rig.rt.files.list(run.thread_id) == []
    return messages[2].content


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_handed_over_wrongly_is_refused_at_once(case: str, tmp_path: Path) -> None:
    wrong, words = WRONG[case]

    async def store(bus: MemoryBus) -> Store:
        return await sqlite_journal(tmp_path / "t.db", bus.publish)

    @tw.tool(description="Does wrong.")
    async def work(state: tw.ThreadState) -> str:
        with pytest.raises((InvalidRequest, InvalidJSON), match=words):
            await wrong(state)
        return "refused"

    async with running(ScriptedModel([calls("work"), {"text": "Done."}]), [work], store=store) as rig:
        assert await told(rig) == "refused"


@pytest.mark.parametrize("case", WRONG)
async def test_the_state_in_memory_refuses_the_same(case: str) -> None:
    wrong, words = WRONG[case]
    sandbox = CodeSandbox()
    with pytest.raises((InvalidRequest, InvalidJSON), match=words):
        await wrong(MemoryState(sandbox=sandbox))
    await sandbox.close()


async def test_a_plain_function_is_told_that_it_cannot_run_code() -> None:
    @tw.tool(description="Runs code in a thread.")
    def work(state: tw.ThreadState) -> str:
        state.run_code("1")
        return ""

    async with running(ScriptedModel([calls("work"), {"text": "Done."}]), [work]) as rig:
        assert "Code can only be run from an async handler" in await told(rig)


async def test_a_value_is_kept_as_it_was_given() -> None:
    found: list[object] = []

    @tw.tool(description="Keeps.")
    async def work(state: tw.ThreadState) -> str:
        given: Any = {"list": [1]}
        state.set_value("k" * 200, given)
        given["list"].append(2)
        seen: Any = await state.get_value("k" * 200)
        seen["list"].append(3)
        found.append(await state.get_value("k" * 200))
        return "kept"

    async with running(ScriptedModel([calls("work"), {"text": "Done."}]), [work]) as rig:
        assert await told(rig) == "kept"
    assert found == [{"list": [1]}]


async def test_a_message_refused_for_its_text_leaves_no_file() -> None:
    file = tw.Attachment(name="a.txt", mime_type="text/plain", data="aGk=")

    @tw.tool(description="Queues nothing.")
    async def work(state: tw.ThreadState) -> str:
        with pytest.raises(InvalidRequest):
            await state.queue_message("", [file])
        with pytest.raises(InvalidRequest):
            await state.notify_parent("No parent", [file])
        await asyncio.sleep(0)
        return "refused"

    async with running(ScriptedModel([calls("work"), {"text": "Done."}]), [work]) as rig:
        assert await told(rig) == "refused"
