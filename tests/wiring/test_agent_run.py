"""`tw.run`, `tw.run_sync` and `tw.stream`: one run of an agent, from its message to its result."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from toolwright.core.errors import DefinitionError, InvalidRequest, NotFound, RunFailed
from toolwright.core.model import ModelEvent, ModelRequest, ModelResponse
from toolwright.testing import ScriptedModel
from toolwright.wiring.shared_runtimes import LOOPS, MAX_JOURNALS, MAX_THREADS

pytestmark = pytest.mark.anyio

WORDS = "to be or not to be"
TURNS: list[object] = [{"calls": [{"name": "count", "args": {"text": WORDS}}]}, {"text": "Six words."}]


def count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def counter(turns: list[object] = TURNS, **options: Any) -> tw.Agent:
    return tw.Agent("counter", instructions="Count.", model=ScriptedModel(turns), tools=[count], **options)


class Answering:
    """A model that answers with the number of its messages, once `may` is set."""

    name = "answering"

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.may.set()
        self.begun = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.begun.set()
        await self.may.wait()
        yield ModelResponse(text=f"{len(request.messages)}")


async def test_a_result_has_the_output_and_all_that_led_to_it() -> None:
    result = await tw.run(counter(), f"How many words has {WORDS!r}?")
    assert (result.status, result.output, result.text) == ("completed", "Six words.", "Six words.")
    assert [each.role for each in result.messages] == ["user", "assistant", "tool", "assistant"]
    [call] = result.calls
    assert (call.tool, call.args, call.result) == ("count", {"text": WORDS}, tw.ToolResult.ok(6))
    assert result.usage.input_tokens > 0
    assert result.cost is None
    assert result.stop_reason == "end_turn"
    assert result.thread_id.startswith("thr_")
    assert result.run_id.startswith("run_")


async def test_a_conversation_goes_on_in_its_thread() -> None:
    agent = tw.Agent("teller", model=Answering())
    first = await tw.run(agent, "One.")
    second = await tw.run(agent, "Two.", thread=first.thread_id)
    other = await tw.run(agent, "Another.")
    assert (first.output, second.output, other.output) == ("1", "3", "1")
    assert second.thread_id == first.thread_id
    assert [each.content for each in second.messages] == ["Two.", "3"]


async def test_runs_at_once_share_what_works_and_none_is_mixed_up() -> None:
    agent = counter()
    results = await asyncio.gather(*[tw.run(agent, f"Number {number}.") for number in range(50)])
    assert [each.messages[0].content for each in results] == [f"Number {number}." for number in range(50)]
    assert len({each.thread_id for each in results}) == 50


async def test_another_model_answers_also_in_the_same_conversation_and_at_once() -> None:
    agent = tw.Agent("teller", model="openai:nobody-asks-it")
    models = [ScriptedModel([{"text": name}]) for name in ("one", "two", "three")]
    results = await asyncio.gather(*[tw.run(agent, "Who?", model=each) for each in models])
    assert [each.output for each in results] == ["one", "two", "three"]
    last = await tw.run(agent, "And now?", model=models[1], thread=results[0].thread_id)
    assert last.output == "two"
    with pytest.raises(NotFound, match="a thread can be continued only in the event loop"):
        await tw.run(agent, "And now?", model=models[1], thread="thr_none")


class City(BaseModel):
    name: str
    people: int


async def test_a_structured_output_is_an_instance_and_an_invalid_one_a_failure() -> None:
    good: list[object] = [{"json": {"name": "Berlin"}}, {"json": {"name": "Berlin", "people": 4}}]
    assert (await tw.run(counter(good, output=City), "Where?")).output == City(name="Berlin", people=4)
    with pytest.raises(RunFailed, match="The model's answer broke its schema 3 times in a row") as failed:
        await tw.run(counter([{"json": {}}] * 3, output=City), "Where?")
    assert failed.value.error_code == "output"
    assert (failed.value.result.status, failed.value.result.output) == ("failed", None)


async def test_a_run_that_fails_is_raised_with_its_reason() -> None:
    agent = counter([{"fail": "refused", "message": "no credit"}])
    with pytest.raises(RunFailed, match="no credit") as failed:
        await tw.run(agent, "Go.")
    result = failed.value.result
    assert (result.status, failed.value.error_code) == ("failed", "model_refused")
    assert [each.role for each in result.messages] == ["user"]


async def test_events_of_a_stream_are_matched_by_their_class() -> None:
    seen: list[object] = []
    async with tw.stream(counter(), "How many?") as stream:
        async for event in stream:
            match event:
                case tw.TextDelta(text):
                    seen.append(text)
                case tw.CallStarted(_, name, arguments):
                    seen.append((name, arguments))
                case tw.CallDone(_, name, result):
                    seen.append((name, result.result))
                case tw.StepDone(number, usage):
                    assert usage.input_tokens
                    seen.append(number)
                case tw.RunDone(result):
                    seen.append(result.status)
                case _:
                    seen.append(event)
        result = await stream.result()
    assert seen == [("count", {"text": WORDS}), ("count", 6), 1, "Six words.", 2, "completed"]
    assert (result.run_id, result.thread_id) == (stream.run_id, stream.thread_id)


async def test_a_result_may_be_asked_for_without_reading_the_events() -> None:
    async with tw.stream(counter(), "How many?") as stream:
        assert (await stream.result()).output == "Six words."
    with pytest.raises(InvalidRequest, match="A stream must be used within its block"):
        await tw.stream(counter(), "How many?").result()


async def test_who_leaves_a_stream_early_cancels_its_run(tmp_path: Path) -> None:
    model = Answering()
    model.may.clear()
    agent, url = tw.Agent("teller", model=model), f"sqlite:///{tmp_path}/journal.db"
    async with tw.stream(agent, "Go.", database_url=url) as stream:
        await model.begun.wait()
    async with tw.App(agents=[agent]).runtime(tw.Settings(database_url=url)) as rt:
        assert (await rt.runs.get(stream.run_id)).status == "cancelled"


async def test_a_run_that_takes_too_long_or_is_cancelled_is_over() -> None:
    model = Answering()
    model.may.clear()
    agent = tw.Agent("teller", model=model)
    with pytest.raises(
        TimeoutError, match=r"The run did not finish within 0\.05 seconds and was cancelled\."
    ):
        await tw.run(agent, "Go.", timeout=0.05)
    model.begun.clear()
    running = asyncio.create_task(tw.run(agent, "Go."))
    await model.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    model.may.set()
    assert (await tw.run(agent, "Go.")).output == "1"


async def test_a_database_keeps_the_conversation_for_another_program(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    agent = tw.Agent("teller", model=Answering())
    first = await tw.run(agent, "One.", database_url=url)
    same = tw.Agent("teller", model=Answering())
    second = await tw.run(same, "Two.", settings=tw.Settings(database_url=url), thread=first.thread_id)
    assert second.output == "3"
    others = [tw.Agent(name, model=Answering()) for name in ("one", "two")]
    results = await asyncio.gather(*[tw.run(each, "Go.", database_url=url) for each in (*others, agent)])
    assert [each.output for each in results] == ["1"] * 3
    with pytest.raises(InvalidRequest, match="is not a conversation with the agent 'one'"):
        await tw.run(others[0], "Go.", database_url=url, thread=first.thread_id)


async def test_agents_of_an_app_are_run_by_name_with_those_that_they_call() -> None:
    sage = tw.Agent(
        "sage", model=ScriptedModel([{"text": "42"}]), expose_as_tool=True, tool_description="Knows."
    )
    turns: list[object] = [{"calls": [{"name": "sage", "args": {"message": "?"}}]}, {"text": "It is 42."}]
    boss = tw.Agent("boss", model=ScriptedModel(turns), tools=[tw.SubagentToolConfig(name="sage")])
    app = tw.App(agents=[boss, sage])
    for agent in (boss, "boss"):
        result = await tw.run(agent, "What is it?", app=app)
        assert result.output == "It is 42."
    with pytest.raises(DefinitionError, match="The agent 'other' is not in the app"):
        await tw.run(tw.Agent("other"), "Go.", app=app)


async def test_a_tool_may_run_an_agent_of_its_own_and_no_journal_is_waited_for_for_ever(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    helper = tw.Agent("helper", model=ScriptedModel([{"text": "Helped."}]))

    async def ask(durable: bool) -> str:
        """Ask a helper."""
        return str((await tw.run(helper, "Help.", database_url=url if durable else None)).output)

    def asking(durable: bool) -> tw.Agent:
        turns: list[object] = [{"calls": [{"name": "ask", "args": {"durable": durable}}]}, {"text": "Done."}]
        return tw.Agent("boss", model=ScriptedModel(turns), tools=[ask])

    [call] = (await tw.run(asking(False), "Go.")).calls
    assert call.result == tw.ToolResult.ok("Helped.")
    [call] = (await tw.run(asking(True), "Go.", database_url=url)).calls
    assert call.result is not None
    assert "Pass both runs an app= that has both agents" in str(call.result.error)


async def test_values_and_files_come_with_a_new_thread() -> None:
    seen: list[object] = []

    async def look(state: tw.ThreadState) -> str:
        """Look."""
        seen.extend(
            [state.user_id, await state.env("CITY"), [each.name for each in await state.list_files()]]
        )
        return "seen"

    turns: list[object] = [{"calls": [{"name": "look", "args": {}}]}, {"text": "Done."}]
    agent = tw.Agent("looker", model=ScriptedModel(turns), tools=[look])
    note = tw.Attachment(name="note.txt", mime_type="text/plain", data="aGk=")
    result = await tw.run(agent, "Look.", user_id="ada", env={"CITY": "Berlin"}, attachments=[note])
    assert seen == ["ada", "Berlin", ["note.txt"]]
    with pytest.raises(InvalidRequest, match="env= is only allowed with a new thread"):
        await tw.run(agent, "Look.", thread=result.thread_id, env={"CITY": "Paris"})


async def test_a_call_that_waits_is_reported_and_answered() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    outside = tw.Tool.from_config(
        {"name": "book", "description": "Book.", "inputSchema": schema, "executionType": "external"}
    )
    turns: list[object] = [{"calls": [{"name": "book", "args": {"city": "Rome"}}]}, {"text": "Booked."}]
    agent = tw.Agent("agent", model=ScriptedModel(turns), tools=[outside])
    async with tw.stream(agent, "Book it.") as stream:
        async for event in stream:
            if isinstance(event, tw.CallWaiting):
                assert (event.name, event.arguments, event.reason) == ("book", {"city": "Rome"}, "calls")
                await stream.submit(event.call_id, {"seat": 3})
        result = await stream.result()
    assert [each.result for each in result.calls] == [tw.ToolResult.ok({"seat": 3})]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"agent": "counter"}, "agent must be a tw.Agent, or the name of an agent of app=, not 'counter'"),
    ({"agent": 3}, "agent must be a tw.Agent"),
    ({"app": 3}, "app= must be a toolwright.App, not 3"),
    ({"settings": 3}, "settings= must be toolwright.Settings, not 3"),
    ({"settings": tw.Settings(), "database_url": "memory://"}, "Give either database_url= or settings="),
    ({"timeout": "1"}, "timeout must be a positive number of seconds, not '1'"),
    ({"timeout": 0}, "timeout must be a positive number of seconds, not 0"),
    ({"timeout": float("nan")}, "timeout must be a positive number of seconds, not nan"),
    ({"content": 3}, "content must be text"),
    ({"content": " "}, "A message must not be empty"),
    ({"attachments": "a.txt"}, "attachments must be a list of attachments"),
    ({"model": 3}, "with_model needs a name such as 'openai:gpt-6.1-terra' or a model object, not 3"),
    ({"database_url": "mysql://x"}, "DATABASE_URL"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[words[:30] for _, words in MISTAKES])
async def test_a_mistake_is_said_in_one_sentence(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"agent": counter(), "content": "Go.", **options}
    with pytest.raises((DefinitionError, InvalidRequest)) as refused:
        await tw.run(given.pop("agent"), given.pop("content"), **given)
    assert words in refused.value.message


async def test_run_sync_works_where_a_loop_runs_in_scripts_and_in_many_threads() -> None:
    agent = counter()
    assert tw.run_sync(agent, "How many?").output == "Six words."
    outputs: list[object] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(tw.run_sync(agent, "How many?").output))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert outputs == ["Six words."] * 8


def test_a_stream_is_read_by_code_that_is_not_async_and_cancelled_when_it_leaves() -> None:
    events = [*tw.stream(counter(), "How many?")]
    assert [type(each).__name__ for each in events][-2:] == ["StepDone", "RunDone"]
    model = Answering()
    agent = tw.Agent("teller", model=model)
    for _ in tw.stream(agent, "Go."):
        break
    assert tw.run_sync(agent, "Again.").output == "1"


def test_run_sync_goes_on_with_a_thread_and_raises_what_went_wrong() -> None:
    agent = tw.Agent("teller", model=Answering())
    first = tw.run_sync(agent, "One.")
    assert tw.run_sync(agent, "Two.", thread=first.thread_id).output == "3"
    with pytest.raises(NotFound):
        tw.run_sync(agent, "Two.", thread="thr_none")


def test_run_sync_within_async_code_of_its_own_thread_is_refused() -> None:
    async def nested() -> str:
        """Run an agent."""
        return str(tw.run_sync(counter(), "How many?").output)

    turns: list[object] = [{"calls": [{"name": "nested", "args": {}}]}, {"text": "Done."}]
    [call] = tw.run_sync(tw.Agent("boss", model=ScriptedModel(turns), tools=[nested]), "Go.").calls
    assert call.result is not None
    assert "Use `await tw.run(…)` there" in str(call.result.error)


async def test_the_journal_of_an_unreferenced_agent_is_gone() -> None:

    in_memory = LOOPS[asyncio.get_running_loop()].in_memory if asyncio.get_running_loop() in LOOPS else {}
    agent = counter()
    await tw.run(agent, "How many?")
    in_memory = LOOPS[asyncio.get_running_loop()].in_memory
    assert id(agent) in in_memory
    key = id(agent)
    del agent
    async with asyncio.timeout(60):  # tasks of its runtime can end later, on a busy machine
        while key in in_memory:
            gc.collect()
            await asyncio.sleep(0.05)


async def test_the_last_thousand_conversations_in_memory_can_be_gone_on_with() -> None:
    agent = tw.Agent("a", model=ScriptedModel([{"text": "Hi."}]))
    first, second = await tw.run(agent, "Hello"), await tw.run(agent, "Hello")
    await asyncio.gather(*[tw.run(agent, "Hello") for _ in range(MAX_THREADS - 2)])
    await tw.run(agent, "Hello again", thread=first.thread_id)  # and it is one of the last
    await tw.run(agent, "One more")
    assert (await tw.run(agent, "Still there?", thread=first.thread_id)).output == "Hi."
    with pytest.raises(NotFound, match="There is no thread"):
        await tw.run(agent, "Still there?", thread=second.thread_id)


async def test_each_model_object_has_a_journal_until_there_are_many() -> None:
    agent = tw.Agent("a", model=ScriptedModel([{"text": "Mine."}]))
    models = [ScriptedModel([{"text": str(number)}]) for number in range(MAX_JOURNALS)]
    own = await tw.run(agent, "Hello")
    results = [await tw.run(agent, "Hello", model=model) for model in models[:-1]]
    assert (await tw.run(agent, "Again", thread=own.thread_id)).output == "Mine."
    assert (await tw.run(agent, "Again", thread=results[0].thread_id, model=models[0])).output == "0"
    await tw.run(agent, "Hello")
    await tw.run(agent, "Hello", model=models[-1])
    assert (await tw.run(agent, "Again", thread=own.thread_id)).output == "Mine."
    with pytest.raises(NotFound):
        await tw.run(agent, "Again", thread=results[0].thread_id, model=models[0])


INTERRUPTED = """
import asyncio, os, signal
import toolwright as tw
from toolwright.testing import ScriptedModel

@tw.tool
async def wait(state: tw.ThreadState) -> str:
    "Wait until the run is cancelled."
    os.kill(os.getpid(), signal.SIGINT)
    await state.execution.abort_signal.wait()
    print("aborted")
    return ""

turns = [{"calls": [{"name": "wait", "args": {}}]}, {"text": "Over."}]
agent = tw.Agent("patient", model=ScriptedModel(turns), tools=[wait])

async def main() -> None:
    tw.run_sync(agent, "Go.")

try:
    asyncio.run(main()) if IN_A_LOOP else tw.run_sync(agent, "Go.")
except KeyboardInterrupt:
    print("interrupted")
"""


ASKED = """
import asyncio, os, signal, threading
import toolwright as tw
from toolwright.testing import ScriptedModel

@tw.tool(requires_approval=True)
async def pay() -> str:
    "Pay."
    return ""

def approve(call: tw.CallWaiting) -> bool:
    os.kill(os.getpid(), signal.SIGINT)
    return threading.Event().wait()

turns = [{"calls": [{"name": "pay", "args": {}}]}, {"text": "Over."}]
clerk = tw.Agent("clerk", model=ScriptedModel(turns), tools=[pay])
try:
    asyncio.run(tw.run(clerk, "Go.", approve=approve)) if IN_A_LOOP else tw.run_sync(clerk, "Go.", approve=approve)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("in_a_loop", [True, False])
def test_ctrl_c_ends_a_program_whose_approval_no_one_answers(in_a_loop: bool) -> None:
    code = ASKED.replace("IN_A_LOOP", str(in_a_loop))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


@pytest.mark.parametrize("in_a_loop", [True, False])
def test_ctrl_c_ends_run_sync_also_where_a_loop_runs(in_a_loop: bool) -> None:
    code = INTERRUPTED.replace("IN_A_LOOP", str(in_a_loop))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout, done.stderr) == ("aborted\ninterrupted\n", "")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_bug_in_a_tool_is_logged_with_its_traceback_once_for_each_place(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def look_up(key: str) -> str:
        """Look something up."""
        return {"a": "1"}[key]

    async def look_up_later(key: str) -> str:
        """Look something up."""
        return look_up(key)

    tool = tw.tool(name=f"look_up_{int(is_async)}")(look_up_later if is_async else look_up)
    calls = [{"name": tool.name, "args": {"key": key}} for key in ("b", "b", "c")]
    turns: list[object] = [{"calls": calls}, {"text": "Done."}]
    result = tw.run_sync(tw.Agent("finder", model=ScriptedModel(turns), tools=[tool]), "Go.")
    assert [each.result.status for each in result.calls if each.result] == ["error"] * 3
    [warning] = [
        each for each in caplog.records if each.levelname == "WARNING" and each.name == "toolwright.tools"
    ]
    assert warning.getMessage() == f"The tool '{tool.name}' raised KeyError."
    assert warning.exc_info is not None
    assert warning.exc_info[0] is KeyError


def tool_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


@pytest.mark.parametrize("awaits", [True, False])
def test_a_handler_that_blocks_the_event_loop_is_named_once(
    awaits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def block() -> str:
        """Block."""
        if awaits:
            await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251 - the mistake under test
        return "done"

    async def block_at_once() -> str:
        """Block."""
        time.sleep(0.6)  # noqa: ASYNC251 - the mistake under test
        return "done"

    tool = tw.tool(name=f"block_{int(awaits)}")(block if awaits else block_at_once)
    turns: list[object] = [{"calls": [{"name": tool.name, "args": {}}] * 2}, {"text": "Done."}]
    result = tw.run_sync(tw.Agent("blocker", model=ScriptedModel(turns), tools=[tool]), "Go.")
    assert [each.result.result for each in result.calls if each.result] == ["done", "done"]
    [warning] = tool_warnings(caplog)
    assert warning.startswith(f"The tool '{tool.name}' held the event loop for ")


def test_a_plain_function_may_block(caplog: pytest.LogCaptureFixture) -> None:
    def block_in_a_thread() -> str:
        """Block."""
        time.sleep(0.6)
        return "done"

    turns: list[object] = [{"calls": [{"name": "block_in_a_thread", "args": {}}]}, {"text": "Done."}]
    tw.run_sync(tw.Agent("patient", model=ScriptedModel(turns), tools=[block_in_a_thread]), "Go.")
    assert tool_warnings(caplog) == []


def test_an_undeclared_name_of_the_env_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    async def look_around(state: tw.ThreadState) -> str:
        """Look."""
        return f"{await state.env('UNDECLARED')} {await state.env('DECLARED')} {await state.env('SET')}"

    tool = tw.tool(variables=[tw.Variable("DECLARED", required=False)])(look_around)
    turns: list[object] = [{"calls": [{"name": "look_around", "args": {}}] * 2}, {"text": "Done."}]
    agent = tw.Agent("looker", model=ScriptedModel(turns), tools=[tool])
    tw.run_sync(agent, "Go.", env={"SET": {"value": "x", "type": "text"}})
    [warning] = tool_warnings(caplog)
    assert "The tool 'look_around' reads the env name 'UNDECLARED', which has no value" in warning


def test_another_python_is_refused_by_name() -> None:
    code = "import sys; sys.version_info = (3, 9, 18); import toolwright"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: Toolwright needs Python 3.11 or later, and this is Python 3.9."
    )


@pytest.mark.parametrize("door", ["run_sync", "stream"])
def test_a_failure_that_is_raised_is_not_logged_too(door: str, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([{"fail": "refused", "message": "No credit."}])
    agent = tw.Agent("poor", instructions="Pay.", model=model)
    with pytest.raises(RunFailed, match="No credit"):
        if door == "run_sync":
            tw.run_sync(agent, "Pay")
        else:
            for _ in tw.stream(agent, "Pay"):
                pass
    assert tool_warnings(caplog) == []


def test_a_childs_failure_is_logged_where_its_parents_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    child = tw.Agent(
        "poor", instructions="Pay.", model=ScriptedModel([{"fail": "refused", "message": "No."}])
    )
    turns = [{"calls": [{"name": "poor", "args": {"message": "Pay"}}]}, {"text": "Sorry."}]
    parent = tw.Agent("boss", instructions="Ask.", model=ScriptedModel(turns), tools=[child.as_tool("Pays.")])
    assert tw.run_sync(parent, "Go").text == "Sorry."
    [warning] = tool_warnings(caplog)
    assert "of the agent 'poor' failed" in warning


@tw.tool(description="Draw.")
def draw() -> tw.ToolResult:
    return tw.ToolResult.ok("drawn", (tw.Attachment(name="a.png", mime_type="image/png", data=b"pixels"),))


@pytest.mark.parametrize("door", ["run_sync", "stream"])
def test_the_bytes_of_files_are_part_of_a_result_in_memory(door: str) -> None:
    turns: list[object] = [{"calls": [{"name": "draw", "args": {}}]}, {"text": "There."}]
    agent = tw.Agent("artist", instructions="Draw.", model=ScriptedModel(turns), tools=[draw])
    note = tw.Attachment(name="note.txt", mime_type="text/plain", data=b"A cat, please.")
    if door == "run_sync":
        result = tw.run_sync(agent, "Draw", attachments=[note])
    else:
        *_, last = tw.stream(agent, "Draw", attachments=[note])
        assert isinstance(last, tw.RunDone)
        result = last.result
    refs = [ref for message in result.messages for ref in message.attachments]
    assert [result.files[ref.path] for ref in refs] == [b"A cat, please.", b"pixels"]
    assert len(result.files) == 2


def test_a_run_continues_a_conversation_from_elsewhere() -> None:
    said: list[object] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    agent = tw.Agent("teller", model=Answering())
    *_, last = tw.stream(agent, "How many?", messages=said)
    assert isinstance(last, tw.RunDone)
    for result in (tw.run_sync(agent, "How many?", messages=said), last.result):
        assert result.text == "3"
        assert [each.imported for each in result.messages] == [False, False]
    with pytest.raises(InvalidRequest, match="messages= is only allowed with a new thread"):
        tw.run_sync(agent, "Go", messages=said, thread=last.result.thread_id)
    with pytest.raises(InvalidRequest, match=r"messages\.0\.role is missing\."):
        tw.run_sync(agent, "Go", messages=[{"content": "Hi"}])
