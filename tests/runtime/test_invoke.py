"""Nested calls: `invoke_tool` immediately, `queue_tool` after the step."""

import asyncio
import json
from typing import Any

import pytest

import toolwright as tw
from tests.kit import Watched, add, call, calls, hang, hanging
from tests.runtime.talk import opened, says, talking, until
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON

pytestmark = pytest.mark.anyio


@tw.tool(description="Show.")
async def show(text: str) -> str:
    return f"shown {text}"


ask = tw.Tool(
    name="ask", description="Ask outside.", kind="external", timeout=20.0, parameters={"type": "object"}
)
later = tw.Tool(
    name="later", description="Ask outside.", kind="external", is_async=True, parameters={"type": "object"}
)
echo = tw.Tool(name="echo", description="Echo.", kind="internal", parameters={"type": "object"})


@tw.tool(description="Needs a key.", variables=[tw.Variable("KEY", required=True)])
async def keyed() -> str:
    return "open"


def caller(*names: str, **args: JSON) -> tw.Tool:
    """Return a tool that calls these, and returns their results."""

    @tw.tool(description="Call.", name="caller")
    async def made(state: tw.ThreadState) -> JSON:
        results = [await state.invoke_tool(name, {**args}) for name in names]
        return [each.result if each.status == "success" else each.error for each in results]

    return made


def app(*tools: Any, model: object | None = None, **prompt: Any) -> tw.App:
    asked = model or Watched([call("caller"), {"text": "Done."}])
    return tw.App(agents=[tw.Agent("boss", tw.Prompt("main", tools=list(tools), model=asked, **prompt))])


async def test_a_handler_calls_the_tools_of_its_prompt_and_each_call_is_recorded_below() -> None:
    async with talking(app(caller("add", "add", a=1, b=2), add), "boss") as talk:
        await talk.say()
        assert await talk.results() == ["[3,3]"]
        assert await talk.made() == [("", "caller", "done"), ("1", "add", "done"), ("2", "add", "done")]
        outer, one, _ = await talk.calls()
        assert (one.parent_id, one.arguments, one.step) == (outer.id, '{"a":1,"b":2}', 1)


async def test_it_is_validated_like_any_call() -> None:
    async with talking(
        app(caller("add", "nothing", "keyed", a="x"), add, keyed), "boss", env={"KEY": "k"}
    ) as talk:
        await talk.say()
        wrong, unknown, extra = json.loads((await talk.results())[0])
        assert "a" in wrong
        assert "There is no tool 'nothing'" in unknown
        assert extra == "open"
        assert [status for _, _, status in await talk.made()] == ["done", "error", "error", "done"]


async def test_what_needs_no_outside_world_is_answered_at_once() -> None:
    async with talking(app(caller("echo", "later", x=1), echo, later), "boss") as talk:
        await talk.say()
        echoed, put_off = json.loads((await talk.results())[0])
        assert echoed == {"success": True, "args": {"x": 1}}
        assert put_off["status"] == "pending"
        assert [status for _, _, status in await talk.made()] == ["done", "done", "pending"]


async def test_a_visible_one_is_shown_by_the_stream_of_a_thread_that_a_caller_created() -> None:
    seen = tw.Tool(
        name="seen", description="Seen.", kind="internal", visible=True, parameters={"type": "object"}
    )
    main = tw.Prompt("main", tools=[caller("seen"), seen], model=Watched([call("caller"), {"text": "Done."}]))
    async with talking(tw.App(agents=[tw.Agent("boss", main, toolkits=["spaces"])]), "boss") as talk:
        await talk.say()
        [seen_by] = json.loads((await talk.results())[0])
        assert seen_by == {"success": True, "args": {}}


async def test_missing_values_are_an_error_and_do_not_suspend_the_run() -> None:
    found: list[tw.ToolResult] = []

    @tw.tool(description="Call.", name="caller")
    async def caller_(state: tw.ThreadState) -> str:
        await talk.rt.threads.set_env(talk.thread_id, {"KEY": None})
        await state.env("KEY")
        found.append(await state.invoke_tool("keyed"))
        return "Called."

    model = Watched([call("caller"), {"text": "Never."}])
    async with talking(app(caller_, keyed, model=model), "boss", env={"KEY": "k"}) as talk:
        await talk.rt.threads.send(talk.thread_id, "Go")
        await until(talk, "variables.required")
        [error] = found
        assert (error.error_code, error.error_data) == ("variables_required", {"missing": ["KEY"]})
        assert error.error == "Tool 'keyed' needs variables that are not set here: KEY."


async def test_secrets_are_taken_out_of_the_results_of_calls_that_a_handler_makes() -> None:
    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState) -> str:
        return f"It is {await state.env('TOKEN')}."

    @tw.tool(description="Call.", name="caller")
    async def caller_(state: tw.ThreadState) -> JSON:
        return (await state.invoke_tool("look")).result

    async with talking(app(caller_, look), "boss", env={"TOKEN": "a-long-secret"}) as talk:
        await talk.say()
        assert await talk.results() == ["It is [redacted:TOKEN]."]
        assert "a-long-secret" not in str(await talk.calls())


async def test_several_at_once_go_one_after_another() -> None:
    at_work: list[str] = []

    @tw.tool(description="Work.")
    async def work(n: int) -> int:
        at_work.append(f"begin {n}")
        await asyncio.sleep(0)
        at_work.append(f"end {n}")
        return n

    @tw.tool(description="Call.", name="caller")
    async def caller_(state: tw.ThreadState) -> list[JSON]:
        found = await asyncio.gather(*[state.invoke_tool("work", {"n": n}) for n in range(3)])
        return [each.result for each in found]

    async with talking(app(caller_, work), "boss") as talk:
        await talk.say()
        assert await talk.results() == ["[0,1,2]"]
        assert at_work == [f"{what} {n}" for n in range(3) for what in ("begin", "end")]


async def test_a_handler_waits_in_memory_for_what_comes_from_outside() -> None:
    async with talking(app(caller("ask"), ask), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        waiting = await opened(talk)
        assert (await talk.rt.runs.get(sent.id)).status == "running"
        assert await talk.rt.calls.submit(sent.id, waiting, "said") == "inline"
        assert (await talk.rt.runs.wait(sent.id, 60)).status == "completed"
        assert await talk.results() == ['["said"]']


async def test_a_handlers_wait_ends_with_its_deadline_and_a_late_result_goes_to_the_inbox() -> None:
    short = tw.Tool(
        name="ask", description="Ask.", kind="external", timeout=0.01, parameters={"type": "object"}
    )
    async with talking(app(caller("ask"), short), "boss") as talk:
        run = await talk.say()
        assert await talk.results() == ['["Tool timed out after 10ms"]']
        [late] = await talk.rt.calls.list()
        assert await talk.rt.calls.submit(run.id, late.id, "late") == "inbox"


async def test_a_cancel_ends_a_handlers_wait_and_leaves_its_call_open() -> None:
    async with talking(app(caller("ask"), ask), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        await opened(talk)
        await talk.rt.runs.cancel(sent.id)
        assert (await talk.rt.runs.wait(sent.id, 60)).status == "cancelled"
        assert await talk.made() == [("", "caller", "error"), ("1", "ask", "pending")]


@pytest.mark.idle_clock
async def test_a_timed_out_handler_closes_what_it_has_begun() -> None:
    endless, _ = hanging("endless")

    @tw.tool(description="Call.", name="caller", timeout=5.0)
    async def caller_(state: tw.ThreadState) -> JSON:
        return (await state.invoke_tool("endless")).result

    model = Watched([calls(call("caller"), call("add", a=1, b=1)), {"text": "Done."}])
    async with talking(app(caller_, endless, add, model=model), "boss") as talk:
        run = await talk.say()
        assert run.status == "completed"
        assert await talk.results() == ['{"error":"Tool timed out after 5000ms","error_code":"timeout"}', "2"]
        assert await talk.made() == [
            ("", "caller", "error"),
            ("", "add", "done"),
            ("1", "endless", "error"),
        ]


@pytest.mark.idle_clock
async def test_a_prompt_that_a_handler_calls_gives_its_answer_and_ends_with_the_handlers_time() -> None:
    endless, _ = hanging("endless")

    @tw.tool(description="Call.", name="caller", timeout=5.0)
    async def caller_(state: tw.ThreadState) -> JSON:
        return (await state.invoke_tool("sums", {"message": "Sum."})).result

    below = tw.Prompt(
        "sums", tool_description="Sums.", expose_as_tool=True, tools=[endless],
        model=Watched([call("endless"), {"text": "Never."}]),
    )  # fmt: skip
    model = Watched([calls(call("caller"), call("add", a=1, b=1)), {"text": "Done."}])
    main = tw.Prompt("main", tools=[caller_, "sums", add], model=model)
    async with talking(tw.App(agents=[tw.Agent("boss", main)], prompts=[below]), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.output) == ("completed", "Done.")
        assert (await talk.results())[1] == "2"
        assert await talk.made() == [
            ("", "caller", "error"),
            ("", "add", "done"),
            ("1", "sums", "error"),
            ("1.1", "endless", "error"),
        ]


async def test_within_a_prompt_that_a_handler_calls_nothing_parks_the_run() -> None:
    below = tw.Prompt(
        "sums", tool_description="Sums.", expose_as_tool=True, tools=[ask],
        model=Watched([call("ask"), {"text": "They said it."}]),
    )  # fmt: skip
    main = tw.Prompt(
        "main",
        tools=[caller("sums", message="x"), "sums"],
        model=Watched([call("caller"), {"text": "Done."}]),
    )
    async with talking(tw.App(agents=[tw.Agent("boss", main)], prompts=[below]), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        waiting = await opened(talk)
        assert await talk.rt.calls.submit(sent.id, waiting, "said") == "inline"
        assert (await talk.rt.runs.wait(sent.id, 60)).status == "completed"
        [[result]] = [json.loads(each) for each in await talk.results()]
        assert result["text"] == "They said it."
        assert (await talk.rt.runs.get(sent.id)).step_count == 2


async def test_tokens_used_within_a_prompt_that_a_handler_calls_count_once() -> None:
    @tw.tool(description="Ask the model.")
    async def sample(state: tw.ThreadState) -> str:
        return (await state.sample("How much?")).text

    def turn(made: dict[str, Any], tokens: int) -> dict[str, Any]:
        return {**made, "usage": {"input_tokens": tokens}}

    asked = turn({"text": "Much.", "when": "How much?"}, 100)
    below = tw.Prompt(
        "sums", tool_description="Sums.", expose_as_tool=True, tools=[sample],
        model=Watched([turn(call("sample"), 10), asked, turn({"text": "Done."}, 10)]),
    )  # fmt: skip
    model = Watched([turn(call("caller"), 1), turn({"text": "Done."}, 1)])
    main = tw.Prompt("main", tools=[caller("sums", message="x"), "sums"], model=model)
    async with talking(tw.App(agents=[tw.Agent("boss", main)], prompts=[below]), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.usage.input_tokens) == ("completed", 122)


async def test_what_a_called_tool_asks_of_the_run_its_caller_asks_too() -> None:
    @tw.tool(description="Stop.")
    async def stop(state: tw.ThreadState) -> str:
        state.queue_tool("add", {"a": 1, "b": 1})
        state.execution.stop_session()
        return "stopped"

    async with talking(app(caller("stop"), stop, add), "boss") as talk:
        run = await talk.say()
        assert (run.stop_reason, run.step_count) == ("session_stop", 1)
        assert await talk.made() == [("", "caller", "done"), ("1", "stop", "done")]


async def test_tasks_left_running_by_a_handler_end_with_its_call() -> None:
    left: list[asyncio.Task[tw.ToolResult]] = []

    @tw.tool(description="Call.", name="caller")
    async def caller_(state: tw.ThreadState) -> str:
        left.append(asyncio.create_task(state.invoke_tool("ask")))
        await asyncio.sleep(0)
        return "gone"

    async with talking(app(caller_, ask), "boss") as talk:
        run = await talk.say()
        assert (run.status, await talk.results()) == ("completed", ["gone"])
        with pytest.raises((asyncio.CancelledError, InvalidRequest)):
            await left[0]


@pytest.mark.idle_clock
async def test_tasks_left_running_are_waited_for_also_if_their_call_times_out_meanwhile() -> None:
    begun, nearly, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tw.tool(description="Slow to give way.", name="slow")
    async def slow_(state: tw.ThreadState) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await may_end.wait()
            state.set_env("PAID", "yes", "text")
        return "paid"

    @tw.tool(description="Call.", name="caller", timeout=60.0)
    async def caller_(state: tw.ThreadState) -> str:
        loop = asyncio.get_running_loop()
        loop.call_later(59.5, nearly.set)
        # after the timeout of this call, within the grace period of its nested call
        loop.call_later(60.1, may_end.set)
        left = asyncio.ensure_future(state.invoke_tool("slow"))
        left.add_done_callback(lambda done: done.cancelled() or done.exception())
        await begun.wait()
        await nearly.wait()
        return "gone"

    async with talking(app(caller_, slow_), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        run = await talk.rt.runs.wait(sent.id, 600.0)
        made = {call.name: call for call in await talk.calls()}
        assert (run.status, made["slow"].status, made["caller"].status) == ("completed", "done", "error")
        assert made["slow"].result == {"status": "success", "result": "paid"}


async def test_a_call_that_is_over_calls_nothing() -> None:
    kept: list[tw.ThreadState] = []

    @tw.tool(description="Call.", name="caller")
    async def caller_(state: tw.ThreadState) -> str:
        kept.append(state)
        return "gone"

    async with talking(app(caller_, add), "boss") as talk:
        await talk.say()
        with pytest.raises(InvalidRequest, match="This call has ended"):
            await kept[0].invoke_tool("add", {"a": 1, "b": 2})


# ── queued calls ────────────────────────────────────────────────────────────────────────────────────────────


def queueing(*queued: tuple[str, dict[str, JSON]]) -> tw.Tool:
    @tw.tool(description="Queue.", name="caller")
    async def caller_(state: tw.ThreadState) -> str:
        for name, args in queued:
            state.queue_tool(name, args)
        return "queued"

    return caller_


async def test_queued_tools_are_called_in_order_before_the_model_is_asked_again() -> None:
    tools = [queueing(("add", {"a": 1, "b": 2}), ("show", {"text": "x"}), ("nothing", {})), add, show]
    model = Watched([calls(call("caller"), call("show", text="first")), {"text": "Done."}])
    async with talking(app(*tools, model=model), "boss") as talk:
        run = await talk.say()
        queued, first, three, shown, unknown = await talk.results()
        assert (queued, first, three, shown) == ("queued", "shown first", "3", "shown x")
        assert "There is no tool 'nothing'" in unknown
        assert (run.step_count, len(model.requests)) == (2, 2)
        roles = [message.role for message in model.requests[1].messages]
        assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "tool", "tool"]


async def test_at_the_last_step_what_is_queued_is_still_called() -> None:
    tools = [queueing(("add", {"a": 1, "b": 2})), add]
    async with talking(app(*tools), "boss", tw.Settings(max_steps=1)) as talk:
        run = await talk.say()
        assert run.stop_reason == "max_steps"
        assert await talk.results() == ["queued", "3"]


async def test_a_tool_that_queues_itself_without_end_stops_at_the_limit() -> None:
    tools = [queueing(("caller", {}))]
    async with talking(app(*tools), "boss", tw.Settings(max_steps=4)) as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason) == ("completed", "max_steps")
        assert await talk.results() == ["queued"] * 5


ONE: tuple[str, dict[str, JSON]] = ("add", {"a": 1, "b": 1})


async def test_a_call_queues_a_hundred_at_the_most() -> None:
    async with talking(app(queueing(*[ONE] * 101), add), "boss") as talk:
        await talk.say()
        refused, *made = await talk.results()
        assert "A call can queue at most 100 tools." in refused
        assert made == ["2"] * 100


async def test_what_ends_the_session_drops_what_is_queued() -> None:
    @tw.tool(description="Queue and stop.", name="caller")
    async def caller_(state: tw.ThreadState) -> str:
        state.queue_tool("add", {"a": 1, "b": 2})
        state.execution.stop_session()
        return "over"

    async with talking(app(caller_, add), "boss") as talk:
        run = await talk.say()
        assert (run.stop_reason, await talk.results()) == ("session_stop", ["over"])
        assert run.queued == ()


async def test_a_handler_sees_the_files_that_its_calls_have_written() -> None:
    @tw.tool(description="Write.")
    async def write(state: tw.ThreadState) -> str:
        await state.write_file("/notes.txt", "written")
        return "written"

    @tw.tool(description="Call.", name="caller")
    async def caller_(state: tw.ThreadState) -> list[str]:
        await state.write_file("/own.txt", "mine")
        await state.invoke_tool("write")
        return [each.path for each in await state.list_files()]

    async with talking(app(caller_, write), "boss") as talk:
        await talk.say()
        assert await talk.results() == ['["/notes.txt","/own.txt"]']
        assert len(await talk.rt.files.list(talk.thread_id)) == 2


# ── agents ──────────────────────────────────────────────────────────────────────────────────────────────────


def family(tool: tw.Tool, child: object, **how: Any) -> tw.App:
    """Run a boss with that tool, which can call a worker."""
    worker = tw.Agent(
        "worker", tw.Prompt("works", model=child), expose_as_tool=True, tool_description="Works."
    )
    model = Watched([call("caller"), {"text": "Done."}])
    boss = tw.Agent("boss", tw.Prompt("main", tools=[tool, {"name": "worker", **how}], model=model))
    return tw.App(agents=[boss, worker])


async def test_a_handler_calls_an_agent_and_waits_for_its_end() -> None:
    async with talking(family(caller("worker", message="Do it."), says("It is done.")), "boss") as talk:
        run = await talk.say()
        assert (run.output, await talk.results()) == ("Done.", ['["It is done."]'])
        assert await talk.made() == [("", "caller", "done"), ("1", "worker", "resolved")]


async def test_or_goes_on_without_waiting() -> None:
    app_ = family(caller("worker", message="Do it."), says("It is done."), blocking=False)
    async with talking(app_, "boss") as talk:
        await talk.say()
        [started] = json.loads((await talk.results())[0])
        assert started["status"] == "running"


async def test_a_cancel_while_a_handler_waits_for_a_child_ends_both() -> None:
    silent = Watched(before=hang)
    async with talking(family(caller("worker", message="Do it."), silent), "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        await silent.asked.wait()
        await talk.rt.runs.cancel(sent.id)
        assert (await talk.rt.runs.wait(sent.id, 60)).status == "cancelled"
        for run in await talk.rt.runs.list():
            assert (await talk.rt.runs.wait(run.id, 60)).status == "cancelled"
        assert {status for _, _, status in await talk.made()} <= {"done", "error", "cancelled", "resolved"}


async def test_a_handler_that_goes_on_after_its_time_changes_nothing_more() -> None:
    late: list[asyncio.Task[Any]] = []

    @tw.tool(description="Call.", name="caller", timeout=0.05)
    async def caller_(state: tw.ThreadState) -> str:
        async def again() -> None:
            with pytest.raises(InvalidRequest):
                await state.invoke_tool("add", {"a": 1, "b": 2})

        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            late.append(asyncio.create_task(again()))
            raise
        return "never"

    async with talking(app(caller_, add), "boss") as talk:
        run = await talk.say()
        assert run.status == "completed"
        await late[0]
        assert await talk.made() == [("", "caller", "error")]
