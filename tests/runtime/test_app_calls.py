"""Calls of the app's tools by external hosts: recorded, durable, owned by their callers."""

import asyncio

import pytest

import toolwright as tw
from tests import journals
from tests.kit import hanging, ran
from toolwright import testing
from toolwright.core.errors import NotFound, ThreadTerminated
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call, is_over
from toolwright.runtime.pending.app_calls import AppCall, CallWatch
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio


@tw.tool(description="Add numbers.")
def add(a: int, b: int) -> int:
    return a + b


@tw.tool(description="Greet by a key.", variables=[tw.Variable("API_KEY", type="secret", required=True)])
async def keyed(state: tw.ThreadState) -> str:
    return f"has {len(await state.env('API_KEY') or '')}"


wait_for_ever, _ = hanging("wait_for_ever")


outside = tw.Tool(name="ask_outside", description="Ask.", kind="external", is_async=True)


async def ended(rt: Runtime, name: str, arguments: object, user_id: str | None = None) -> Call:
    """Make a call, and wait until it ends or is suspended."""
    call = rt.app_calls.new()
    with rt.app_calls.watch(call) as watch:
        await rt.app_calls.make(call, name, arguments, user_id)
        return await settled(rt, call, watch)


async def settled(rt: Runtime, call: AppCall, watch: CallWatch) -> Call:
    async with asyncio.timeout(10):
        while (row := await rt.app_calls.get_row(call)) is None or not (
            is_over(row.status) or row.status == "pending"
        ):
            await watch.next(1.0)
    return row


def result_of(rt: Runtime, row: Call) -> ToolResult:
    result = rt.app_calls.result(row)
    assert result is not None
    return result


async def test_a_call_is_a_run_of_a_thread_of_its_own_that_asks_no_model() -> None:
    async with journals.runtime(tw.App(tools=[add])) as rt:
        row = await ended(rt, "add", {"a": 1, "b": 2})
        assert (row.status, result_of(rt, row).result) == ("done", 3)
        run = await rt.runs.wait(row.run_id, 10)
        assert (run.status, run.usage.input_tokens) == ("completed", 0)
        again = await ended(rt, "add", {"a": 1, "b": 2})
        assert again.thread_id != row.thread_id


async def test_invalid_arguments_are_an_error_result_that_is_recorded() -> None:
    async with journals.runtime(tw.App(tools=[add])) as rt:
        row = await ended(rt, "add", {"a": "1"})
        result = result_of(rt, row)
        assert (row.status, result.error_code) == ("error", "invalid_arguments")
        assert "b" in (result.error or "")


async def test_a_call_beside_another_has_the_values_that_were_set_in_its_thread() -> None:
    async with journals.runtime(tw.App(tools=[keyed])) as rt:
        first = await ended(rt, "keyed", {})
        assert result_of(rt, first).error_code == "variables_required"
        await rt.threads.set_env(first.thread_id, {"API_KEY": "12345678"})
        call = rt.app_calls.new(first)
        with rt.app_calls.watch(call) as watch:
            await rt.app_calls.make_in_thread_of(call, first, "keyed", {})
            second = await settled(rt, call, watch)
        assert result_of(rt, second).result == "has 8"
        assert (second.thread_id, second.run_id != first.run_id) == (first.thread_id, True)
        assert len(await rt.threads.list()) == 1


async def test_a_call_is_made_beside_no_call_of_an_agent() -> None:
    model = testing.ScriptedModel([{"calls": [{"name": "add", "args": {"a": 1, "b": 2}}]}, {"text": "3"}])
    agent = tw.Agent("counter", instructions="Count.", model=model, tools=[add])
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        await ran(rt, "counter")
        [other] = await rt.calls.list(status=None)
        with pytest.raises(NotFound, match="There is no thread"):
            await rt.app_calls.make_in_thread_of(rt.app_calls.new(other), other, "add", {"a": 1, "b": 2})


async def test_a_tool_whose_variables_are_missing_says_so_at_once() -> None:
    async with journals.runtime(tw.App(tools=[keyed])) as rt:
        result = result_of(rt, await ended(rt, "keyed", {}))
        assert (result.error_code, result.error_data) == ("variables_required", {"missing": ["API_KEY"]})
    async with journals.runtime(tw.App(tools=[keyed], env={"API_KEY": "12345678"})) as rt:
        assert result_of(rt, await ended(rt, "keyed", {})).result == "has 8"


async def test_a_tool_of_an_agent_alone_has_that_agents_values() -> None:
    agent = tw.Agent("keeper", tw.Prompt("keeper", tools=[keyed]), env={"API_KEY": "123456789"})
    async with journals.runtime(tw.App(agents=[agent], tools=[add])) as rt:
        assert {tool.name for tool in rt.app_calls.tools} == {"add", "keyed"}
        assert result_of(rt, await ended(rt, "keyed", {})).result == "has 9"
        assert (await ended(rt, "add", {"a": 1, "b": 1})).status == "done"


async def test_an_agent_that_is_exposed_is_called_in_a_thread_below() -> None:
    model = testing.ScriptedModel([{"text": "Yes."}])
    agent = tw.Agent(
        "oracle",
        tw.Prompt("oracle", prompt="Answer.", model=model),
        expose_as_tool=True,
        tool_description="Ask it.",
    )
    async with journals.runtime(tw.App(agents=[agent])) as rt:
        row = await ended(rt, "oracle", {"message": "Is it so?"})
        assert result_of(rt, row).result == "Yes."
        assert len(await rt.threads.children(row.thread_id)) == 1


async def test_a_late_result_is_in_the_row_and_wakes_no_model() -> None:
    async with journals.runtime(tw.App(tools=[outside])) as rt:
        row = await ended(rt, "ask_outside", {})
        assert row.status == "pending"
        await rt.runs.wait(row.run_id, 10)
        await rt.calls.submit(row.run_id, row.id, {"answer": 42})
        [last, *_] = await rt.runs.list(thread_id=row.thread_id)
        assert (await rt.runs.wait(last.id, 10)).status == "completed"
        found = await rt.app_calls.find(row.id, None)
        assert result_of(rt, found).result == {"answer": 42}


async def test_a_cancelled_call_ends_on_every_executor() -> None:
    async with journals.runtime(tw.App(tools=[wait_for_ever, outside])) as rt:
        call = rt.app_calls.new()
        with rt.app_calls.watch(call) as watch:
            await rt.app_calls.make(call, "wait_for_ever", {})
            while (row := await rt.app_calls.get_row(call)) is None or row.status != "running":
                await watch.next(1.0)
            await rt.app_calls.cancel(call)
            assert (await settled(rt, call, watch)).status == "error"
        assert (await rt.runs.wait(call.run_id, 10)).status == "cancelled"
        pending = await ended(rt, "ask_outside", {})
        await rt.runs.wait(pending.run_id, 10)
        await rt.app_calls.cancel(pending)
        assert (await rt.app_calls.find(pending.id, None)).status == "cancelled"
        await rt.app_calls.cancel(pending)  # it has finished


async def test_a_call_is_found_by_who_made_it_alone() -> None:
    async with journals.runtime(tw.App(tools=[add])) as rt:
        row = await ended(rt, "add", {"a": 1, "b": 2}, "ada")
        assert (await rt.app_calls.find(row.id, ("ada",))).id == row.id
        assert (await rt.app_calls.find(row.id, None)).id == row.id
        for call_id, users in [(row.id, ("bob",)), ("call_none", None)]:
            with pytest.raises(NotFound):
                await rt.app_calls.find(call_id, users)


async def test_no_one_speaks_in_such_a_thread_and_no_list_has_its_agent() -> None:
    async with journals.runtime(tw.App(tools=[add])) as rt:
        row = await ended(rt, "add", {"a": 1, "b": 2})
        with pytest.raises(ThreadTerminated):
            await rt.threads.send(row.thread_id, "Hello?")
        assert await rt.agents.list() == []
        for name in ("app tools", "agt_app-tools", row.agent or ""):
            with pytest.raises(NotFound):
                await rt.threads.create(name)


@tw.tool(description="Speak to its own thread.")
async def talker(state: tw.ThreadState, text: str = "Hm.") -> str:
    await state.queue_message(text)
    return "said"


async def test_what_a_handler_says_to_its_thread_asks_no_model_either() -> None:
    async with journals.runtime(tw.App(tools=[talker])) as rt:
        row = await ended(rt, "talker", {})
        assert (await rt.runs.wait(row.run_id, 10)).status == "completed"
