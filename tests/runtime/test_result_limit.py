"""No text of a result is longer than the limit, for any source of the result (D20)."""

import asyncio
import json

import pytest

import toolwright as tw
from tests.runtime.rig import assert_valid, running
from tests.runtime.test_env import finished, script
from tests.runtime.test_hostile_models import DONE, Saying, calls
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.threads.event import Topic
from toolwright.core.tools.http.execution import HttpExecution
from toolwright.core.tools.pipeline import Executor, PreparedCall
from toolwright.core.tools.tool import Kind
from toolwright.runtime.files import MAX_CODE, recordable
from toolwright.wiring.settings import Settings

pytestmark = pytest.mark.anyio

LIMIT = Settings(max_result_text=1_024)


@tw.tool(description="Fail.")
async def fail() -> tw.ToolResult:
    return tw.ToolResult.fail("No.", stack="first" + "ä" * 5_000 + "last", error_code="c" * 5_000)


@tw.tool(description="Add whole numbers.")
async def add(numbers: list[int]) -> int:
    return sum(numbers)


async def test_what_is_decided_at_once_is_cut() -> None:
    def told(prepared: PreparedCall) -> tw.ToolResult:
        return tw.ToolResult.ok({"text": "x" * 5_000})

    outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)
    async with running(
        script("outside"), [outside], settings=LIMIT, inline_executors={"external": told}
    ) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        shown = (await rig.transcript(thread.id))[2].content
        assert shown.endswith("x\n[The result has 5011 bytes, of which the first 1024 are shown.]")
        assert len(shown) < 1_200


async def test_of_a_latent_output_that_is_too_long_only_what_the_model_reads_is_cut() -> None:
    written: JSONObject = {"text": "x" * 5_000}
    schema = {"properties": {"_output": {"type": "object", "required": ["text"]}}}
    handled: list[JSON] = []

    @tw.tool(description="Calls.")
    async def caller(state: tw.ThreadState) -> None:
        handled.append((await state.invoke_tool("say", {"_output": written})).result)

    answer = calls(("1", "say", json.dumps({"_output": written})), ("2", "caller", "{}"))
    tools = [tw.Tool.from_schema("say", schema), caller]
    async with running(Saying(answer, DONE), tools, settings=LIMIT) as rig:
        thread = await rig.rt.threads.create("tester")
        run_id = await finished(rig, thread.id)
        transcript = await rig.transcript(thread.id)
        assert_valid(transcript)
        assert transcript[2].content.endswith(
            "x\n[The result has 5011 bytes, of which the first 1024 are shown.]"
        )
        rows = await rig.rt.calls.list(run_id=run_id, status=None)
        results = [call.result for call in rows if call.name == "say"]
        assert results == [{"status": "success", "result": written}] * 2
        assert handled == [written]
        events = await rig.rt.events.list(Topic(kind="run", id=run_id))
        told = [event for event in events if event.type == "tool.done"]
        assert max(len(json.dumps(event.payload)) for event in told) < 1_400


async def test_nothing_is_cut_twice() -> None:
    async def over_http(prepared: PreparedCall, state: tw.ThreadState) -> tw.ToolResult:
        return tw.ToolResult.ok("x" * 5_000)

    to = HttpExecution(url="https://example.org")
    post = tw.Tool(name="post", description="Post.", kind="external", visible=False, execution=to)
    latent = tw.Tool.from_schema("say", {"properties": {"_output": {"items": {"type": "integer"}}}})
    answer = calls(("1", "post", "{}"), ("2", "say", json.dumps({"_output": ["none"] * 50})))
    executors: dict[Kind, Executor] = {"gateway": over_http}
    async with running(Saying(answer, DONE), [post, latent], settings=LIMIT, executors=executors) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        posted, said = [message.content for message in (await rig.transcript(thread.id))[2:4]]
        assert posted.endswith(
            "[The result has 5000 bytes, of which the first 1024 are shown. "
            "The whole is in the file /attachments/post-success.txt.]"
        )
        assert said.count("[The result has") == 1


async def test_what_is_cut_has_letters_as_they_are() -> None:
    @tw.tool(description="List cities.")
    async def cities() -> list[str]:
        return ["Zürich"] * 500

    async with running(script("cities"), [cities], settings=LIMIT) as rig:
        thread = await rig.rt.threads.create("tester")
        await finished(rig, thread.id)
        [file] = await rig.rt.files.list(thread.id)
        whole = json.dumps(["Zürich"] * 500, ensure_ascii=False, separators=(",", ":"))
        assert (await rig.rt.files.content(file)).decode() == whole
        shown = (await rig.transcript(thread.id))[2].content
        assert shown.startswith(whole.encode()[:1_024].decode(errors="ignore"))
        assert f"[The result has {len(whole.encode())} bytes" in shown


def _named(name: str) -> tw.Tool:
    @tw.tool(name=name, description="Do nothing.")
    async def nothing() -> None: ...

    return nothing


async def test_a_stack_is_cut_in_its_middle() -> None:
    async with running(script("fail"), [fail], settings=LIMIT) as rig:
        thread = await rig.rt.threads.create("tester")
        run_id = await finished(rig, thread.id)
        [call] = await rig.rt.calls.list(run_id=run_id, status=None)
        assert call.result is not None
        message = (await rig.transcript(thread.id))[2]
        for stack in (str(message.stack), str(call.result["stack"])):
            assert len(stack.encode()) <= 1_024
            assert stack.startswith("firstä")
            assert stack.endswith("älast")
            assert " … (9085 bytes are left out)\n" in stack
        assert len(message.content) < 2 * MAX_CODE
        assert await rig.rt.files.list(thread.id) == []


async def test_a_submitted_stack_is_cut_too() -> None:
    outside = tw.Tool(name="outside", description="Ask.", kind="external", timeout=30.0)
    async with running(script("outside"), [outside], settings=LIMIT) as rig:
        run = await rig.send()
        while not (open_calls := await rig.rt.calls.list()):  # noqa: ASYNC110 - a commit of the store sets no event
            await asyncio.sleep(0)
        result = tw.ToolResult.fail("No.", stack="x" * 5_000)
        await rig.rt.calls.submit(run.id, open_calls[0].id, result)
        await rig.rt.runs.wait(run.id, 10)
        settled = await rig.rt.calls.get(open_calls[0].id)
        assert settled.result is not None
        assert len(str(settled.result["stack"])) <= 1_024
        assert len(str((await rig.transcript(run.thread_id))[2].stack)) <= 1_024


async def test_a_stack_within_the_limit_is_left_as_it_is() -> None:
    result = tw.ToolResult.fail("No.", stack="ä" * 512, error_code="x" * MAX_CODE)
    assert recordable(result, 1_024) == result
    once = recordable(tw.ToolResult.fail("No.", stack="x" * 9_999), 1_024)
    assert recordable(once, 1_024) == once


async def test_what_is_answered_without_calling_a_tool_is_cut() -> None:
    faulty = json.dumps({"numbers": ["none"] * 50})
    answer = calls(("1", "add", faulty), ("2", "nothing", "{}"))
    tools = [add, *[_named(f"{'t' * 50}_{number}") for number in range(40)]]
    async with running(Saying(answer, DONE), tools, settings=LIMIT) as rig:
        thread = await rig.rt.threads.create("tester")
        run_id = await finished(rig, thread.id)
        transcript = await rig.transcript(thread.id)
        assert_valid(transcript)
        for message, begin in zip(transcript[2:4], ("Invalid arguments: ", "There is no tool"), strict=True):
            error = json.loads(message.content)["error"]
            assert error.startswith(begin)
            assert error.endswith("of which the first 1024 are shown.]")
            assert len(error) < 1_200
        for call in await rig.rt.calls.list(run_id=run_id, status=None):
            assert len(json.dumps(call.result)) < 1_400
