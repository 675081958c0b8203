"""Prompts as tools (S0 §4): one conversation within a call, with calls of its own."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.kit import Watched, add, call, calls
from tests.runtime.talk import Talk, assert_answered, heard, says, talking
from toolwright.core.json_value import JSON

pytestmark = pytest.mark.anyio


@tw.tool(description="Fail.")
async def fail() -> str:
    raise RuntimeError("no luck")


@tw.tool(description="Draw.")
async def draw(state: tw.ThreadState) -> tw.ToolResult:
    return tw.ToolResult.ok("drawn", (tw.Attachment(name="chart.txt", mime_type="text/plain", data="eA=="),))


ask = tw.Tool(
    name="ask", description="Ask outside.", kind="external", timeout=20.0, parameters={"type": "object"}
)


def sums(model: object, tools: Any = (), **options: Any) -> tw.Prompt:
    """Return the prompt that is called."""
    return tw.Prompt(
        "sums", "You sum.", tool_description="Sums.", expose_as_tool=True, model=model, tools=tools, **options
    )


def app(model: object, called: Any, *prompts: tw.Prompt, **agent: Any) -> tw.App:
    main = tw.Prompt("main", "You ask.", tools=called, model=model)
    return tw.App(agents=[tw.Agent("boss", main, **agent)], prompts=prompts)


def ask_sums(**args: JSON) -> Watched:
    return Watched([call("sums", **(args or {"message": "Sum it."})), {"text": "Done."}])


@requirement("S0-1-2", "S0-4-1")
async def test_a_prompt_without_calls_gives_its_text() -> None:
    model, below = ask_sums(), says("Three.")
    async with talking(app(model, ["sums"], sums(below)), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.output) == ("completed", "Done.")
        assert await talk.results() == ["Three."]
        assert heard(below) == [("user", "Sum it.")]
        assert below.requests[0].system == "You sum."
        [offered] = model.requests[0].tools
        assert (offered.name, offered.description) == ("sums", "Sums.")
        assert offered.parameters["required"] == ["message"]


CALLED = [calls(call("add", a=1, b=2), call("fail")), {"text": "Three."}]
MADE = [
    {"name": "add", "args": {"a": 1, "b": 2}, "result": 3},
    {"name": "fail", "args": {}, "result": {"error": "no luck"}},
]


@requirement("S0-4-2", "S0-4-3", "S0-4-4")
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("tool_calls", [True, False])
@pytest.mark.parametrize("errors", [True, False])
async def test_the_three_flags_say_what_its_result_consists_of(
    text: bool, tool_calls: bool, errors: bool
) -> None:
    config = {
        "name": "sums",
        "includeTextResponse": text,
        "includeToolCalls": tool_calls,
        "includeErrors": errors,
    }
    async with talking(app(ask_sums(), [config], sums(Watched(CALLED), [add, fail])), "boss") as talk:
        await talk.say()
        [result] = await talk.results()
        whole: dict[str, Any] = {"text": "Three."} if text else {}
        made = MADE if errors else [MADE[0], {**MADE[1], "result": None}]
        whole |= {"toolCalls": made} if tool_calls else {}
        whole |= {"errors": ["no luck"]} if errors else {}
        assert errors or "no luck" not in result
        assert (result if list(whole) == ["text"] else json.loads(result)) == (
            "Three." if list(whole) == ["text"] else whole
        )


async def test_its_calls_are_recorded_below_its_own_and_are_no_messages_of_the_thread() -> None:
    below = Watched(CALLED)
    async with talking(app(ask_sums(), ["sums"], sums(below, [add, fail])), "boss") as talk:
        run = await talk.say()
        assert await talk.made() == [("", "sums", "done"), ("1", "add", "done"), ("2", "fail", "error")]
        one, two, three = await talk.calls()
        assert two.parent_id == three.parent_id == one.id
        assert [role for role, _ in await talk.said()] == ["user", "assistant", "tool", "assistant"]
        assert_answered(below)
        assert run.step_count == 2


@requirement("S0-4-5")
async def test_the_property_of_the_message_is_its_user_message() -> None:
    below = says("Yes.")
    config = tw.SubpromptConfig(name="sums", init_user_message_property="question")
    model = ask_sums(question="What is it?", message="no")
    async with talking(app(model, [config], sums(below)), "boss") as talk:
        await talk.say()
        assert heard(below) == [("user", "What is it?")]
        assert model.requests[0].tools[0].parameters["required"] == ["question"]


class Numbers(BaseModel):
    first: int
    rest: list[int]


async def test_the_arguments_of_a_schema_are_validated_and_told_as_json() -> None:
    below = says("Three.")
    model = Watched(
        [call("sums", first="1", rest=[2, "x"]), call("sums", first=1, rest=[2]), {"text": "Done."}]
    )
    async with talking(app(model, ["sums"], sums(below, required_schema=Numbers)), "boss") as talk:
        await talk.say()
        faulty, right = await talk.results()
        assert "first" in faulty
        assert "rest.1" in faulty
        assert right == "Three."
        [(_, told)] = heard(below)
        assert json.loads(told) == {"first": 1, "rest": [2]}
        assert len(below.requests) == 1


class Place(BaseModel):
    city: str


async def test_what_a_prompt_is_told_as_json_has_letters_as_they_are() -> None:
    below = says("Yes.")
    model = Watched([call("sums", city="Zürich 東京"), {"text": "Done."}])
    async with talking(app(model, ["sums"], sums(below, required_schema=Place)), "boss") as talk:
        await talk.say()
        assert heard(below) == [("user", '{"city":"Zürich 東京"}')]


@requirement("S0-4-6")
async def test_the_property_of_attachments_names_files_of_the_thread() -> None:
    below = says("Read.")
    config = tw.SubpromptConfig(name="sums", init_attachments_property="files")
    model = Watched(
        [
            call("draw"),
            call("sums", message="Read it.", files="/attachments/chart.txt"),
            call("sums", message="Read it.", files="/nowhere"),
            {"text": "Done."},
        ]
    )
    async with talking(app(model, [draw, config], sums(below)), "boss") as talk:
        await talk.say()
        _, read, lost = await talk.results()
        assert read == "Read."
        [request] = below.requests
        assert [each.path for each in request.messages[-1].attachments] == ["/attachments/chart.txt"]
        assert "/nowhere" in json.loads(lost)["error"]


async def test_the_files_of_its_calls_are_those_of_its_result() -> None:
    below = Watched([call("draw"), {"text": "Drawn."}])
    async with talking(app(ask_sums(), ["sums"], sums(below, [draw])), "boss") as talk:
        await talk.say()
        [answer] = [message for message in await talk.messages() if message.role == "tool"]
        assert [each.path for each in answer.attachments] == ["/attachments/chart.txt"]
        assert [file.path for file in await talk.rt.files.list(talk.thread_id)] == ["/attachments/chart.txt"]


PAST = [
    ("user", "First."),
    ("assistant", "Let me add."),
    ("tool", "3"),
    ("assistant", "It is 3."),
    ("user", "Go"),
]
SAID = [("user", "First."), ("assistant", "Let me add."), ("assistant", "It is 3."), ("user", "Go")]
TOOLS = [("assistant", ""), ("tool", "3")]


@pytest.mark.parametrize(
    ("chat", "tools", "expected"),
    [(False, False, []), (True, False, SAID), (False, True, TOOLS), (True, True, PAST)],
)
async def test_of_what_was_before_it_hears_what_it_asks_for(
    chat: bool, tools: bool, expected: list[tuple[str, str]]
) -> None:
    below = says("Sum.")
    model = Watched(
        [
            {"when": "First.", "text": "Let me add.", **call("add", a=1, b=2)},
            {"when": "3", "text": "It is 3."},
            {"when": "Go", "text": "Now.", **calls(call("add", a=1, b=2), call("sums", message="Sum it."))},
            {"when": "Sum.", "text": "Done."},
        ]
    )
    prompt = sums(below, include_chat=chat, include_past_tools=tools)
    async with talking(app(model, [add, "sums"], prompt), "boss") as talk:
        await talk.say("First.")
        await talk.say("Go")
        assert heard(below) == [*expected, ("user", "Sum it.")]
        assert_answered(below)


async def test_what_a_handler_calls_does_not_hear_of_the_open_step_either() -> None:
    below = says("Sum.")

    @tw.tool(description="Sum by way of a prompt.")
    async def by_way(state: tw.ThreadState) -> str:
        return str((await state.invoke_tool("sums", {"message": "Sum it."})).result)

    model = Watched([call("by_way"), {"text": "Done."}])
    prompt = sums(below, include_chat=True, include_past_tools=True)
    async with talking(app(model, [by_way, "sums"], prompt), "boss") as talk:
        await talk.say("Go")
        assert await talk.results() == ["Sum."]
        assert heard(below) == [("user", "Go"), ("user", "Sum it.")]
        assert_answered(below)


async def test_prompts_call_prompts() -> None:
    deep = tw.Prompt(
        "deep", "Deep.", tool_description="Deep.", expose_as_tool=True, tools=[add],
        model=Watched([call("add", a=2, b=2), {"text": "Four."}]),
    )  # fmt: skip
    below = Watched([call("deep", message="Deeper."), {"text": "It is four."}])
    async with talking(app(ask_sums(), ["sums"], sums(below, ["deep"]), deep), "boss") as talk:
        await talk.say()
        [result] = await talk.results()
        assert json.loads(result)["toolCalls"][0]["result"]["text"] == "Four."
        assert await talk.made() == [
            ("", "sums", "done"),
            ("1", "deep", "done"),
            ("1.1", "add", "done"),
        ]


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        ({"fail": "refused", "message": "Not this."}, "Not this."),
        ({"fail": "unavailable", "message": "Gone."}, "Gone."),
    ],
)
async def test_the_failure_of_its_model_is_an_error_result(turn: dict[str, Any], words: str) -> None:
    async with talking(app(ask_sums(), ["sums"], sums(Watched([turn]))), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.output) == ("completed", "Done.")
        assert words in (await talk.results())[0]


async def test_a_conversation_without_an_end_is_an_error_result() -> None:
    below = Watched([call("add", a=1, b=1) for _ in range(9)])
    settings = tw.Settings(max_steps=3)
    async with talking(app(ask_sums(), ["sums"], sums(below, [add])), "boss", settings) as talk:
        await talk.say()
        [result] = await talk.results()
        assert json.loads(result)["error_code"] == "max_steps"
        assert len(below.requests) == 3


async def test_a_prompt_tool_may_end_the_session_by_what_it_calls() -> None:
    @tw.tool(description="Stop.")
    async def stop(state: tw.ThreadState) -> str:
        state.execution.stop_session()
        return "stopped"

    below = Watched([calls(call("stop"), call("add", a=1, b=1)), {"text": "Never."}])
    async with talking(app(ask_sums(), ["sums"], sums(below, [stop, add])), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason) == ("completed", "session_stop")
        [result] = await talk.results()
        assert json.loads(result)["error"] == (
            "The session was stopped while this call was running; its effect is unknown."
        )
        assert await talk.made() == [("", "sums", "error"), ("1", "stop", "done"), ("2", "add", "error")]
        assert len(below.requests) == 1


async def test_what_its_tools_queue_is_called_in_its_own_conversation() -> None:
    @tw.tool(description="Queue.")
    async def queue(state: tw.ThreadState) -> str:
        state.queue_tool("add", {"a": 1, "b": 2})
        return "queued"

    below = Watched([call("queue"), {"text": "Three."}])
    async with talking(app(ask_sums(), ["sums"], sums(below, [queue, add])), "boss") as talk:
        await talk.say()
        assert await talk.made() == [("", "sums", "done"), ("1", "queue", "done"), ("2", "add", "done")]
        assert [role for role, _ in heard(below)] == ["user", "assistant", "tool", "assistant", "tool"]
        assert_answered(below)


async def test_what_a_conversation_leaves_queued_when_it_ends_is_never_called() -> None:
    @tw.tool(description="Queue.")
    async def queue(state: tw.ThreadState) -> str:
        state.queue_tool("add", {"a": 1, "b": 2})
        return "queued"

    model, below = says("Nobody asked me."), Watched([call("queue"), {"text": "Three."}])
    prompts = app(model, ["sums"], sums(below, [queue, add]))
    async with journals.runtime(prompts, tw.Settings(max_steps=1)) as rt:
        toolkit = rt.toolkit("boss")  # its run executes external calls only
        answer = await toolkit.call("sums", {"message": "Sum it."})
        assert "came to no answer in 1 step." in str(answer)
        [run] = await rt.runs.list()
        run = await rt.runs.wait(run.id, 10)
        assert (run.status, run.output, run.queued) == ("completed", None, ())
        assert (len(below.requests), model.requests) == (1, [])


async def test_a_call_within_that_is_answered_from_outside_parks_the_run() -> None:
    below = Watched([call("ask"), {"text": "They said it."}])
    async with journals.by_hand(app(ask_sums(), ["sums"], sums(below, [ask]))) as (rt, motor):
        talk = Talk(rt, (await rt.threads.create("boss")).id)
        sent = await rt.threads.send(talk.thread_id, "Go")
        await motor.run_until_idle()
        parked = await rt.runs.get(sent.id)
        assert parked.status == "waiting"
        [waiting] = await rt.calls.list()
        assert (parked.waiting or {})["callIds"] == [waiting.id]
        before = (await rt.threads.get(talk.thread_id)).epoch
        await rt.threads.post(talk.thread_id, "Are you there?")
        await motor.run_until_idle()
        assert (await rt.threads.get(talk.thread_id)).epoch == before, "it waits on"
        await rt.calls.submit(sent.id, waiting.id, {"yes": True})
        await motor.run_until_idle()
        assert (await rt.runs.get(sent.id)).status == "completed"
        [result] = await talk.results()
        assert json.loads(result)["toolCalls"] == [{"name": "ask", "args": {}, "result": {"yes": True}}]
        assert len(below.requests) == 2


async def test_a_call_within_whose_time_is_over_is_an_error_there() -> None:
    below = Watched([call("ask"), {"text": "Nobody."}])
    async with journals.by_hand(app(ask_sums(), ["sums"], sums(below, [ask]))) as (rt, motor):
        talk = Talk(rt, (await rt.threads.create("boss")).id)
        sent = await rt.threads.send(talk.thread_id, "Go")
        await motor.run_until_idle()
        while (await rt.runs.get(sent.id)).status == "waiting":
            await motor.run_timers()
        assert heard(below)[-1] == ("tool", '{"error":"Tool timed out after 20000ms","error_code":"timeout"}')
        [late] = await rt.calls.list()
        assert await rt.calls.submit(sent.id, late.id, "late") == "inbox"


async def test_a_parked_run_that_is_cancelled_leaves_nothing_open_within() -> None:
    below = Watched([calls(call("ask"), call("add", a=1, b=1)), {"text": "Never."}])
    async with journals.by_hand(app(ask_sums(), ["sums"], sums(below, [ask, add]))) as (rt, motor):
        talk = Talk(rt, (await rt.threads.create("boss")).id)
        sent = await rt.threads.send(talk.thread_id, "Go")
        await motor.run_until_idle()
        await rt.runs.cancel(sent.id)
        await motor.run_until_idle()
        assert (await rt.runs.get(sent.id)).status == "cancelled"
        assert await talk.made() == [("", "sums", "error"), ("1", "ask", "pending"), ("2", "add", "error")]
        [result] = await talk.results()
        assert json.loads(result)["error"].startswith("Run cancelled while this call was running")


async def test_of_two_sides_a_prompt_tool_hears_what_its_caller_has_heard() -> None:
    below = says("Sum.")
    one = tw.Prompt("one", model=says("From a.", "Again a."))
    two = tw.Prompt(
        "two", model=Watched([call("sums", message="Sum it."), {"text": "From b."}]), tools=["sums"]
    )
    both = tw.Agent("both", one, two, type="dual_ai", max_session_turns=1)
    whole = tw.App(agents=[both], prompts=[sums(below, include_chat=True)])
    async with talking(whole, "both") as talk:
        await talk.say("Go")
        assert heard(below) == [("user", "Go"), ("user", "From a."), ("user", "Sum it.")]


async def test_the_run_shows_the_call_and_the_list_of_calls_those_within() -> None:
    below = Watched(CALLED)
    async with talking(app(ask_sums(), ["sums"], sums(below, [add, fail])), "boss") as talk:
        run = await talk.say()
        listed = await talk.rt.calls.list(status=None, run_id=run.id)
        assert sorted(each.name for each in listed) == ["add", "fail", "sums"]


async def test_no_secret_gets_into_a_conversation_within() -> None:
    @tw.tool(description="Look it up.")
    async def look(state: tw.ThreadState) -> str:
        return f"It is {await state.env('TOKEN')}."

    below = Watched([call("look"), {"text": "Done."}])
    made = app(ask_sums(message="Sum."), ["sums"], sums(below, [look]))
    async with talking(made, "boss", env={"TOKEN": "a-long-secret"}) as talk:
        await talk.say()
        assert heard(below, 1)[-1] == ("tool", "It is [redacted:TOKEN].")
        assert "a-long-secret" not in str(await talk.calls()) + str(await talk.messages())


LATER = tw.Tool(
    name="later",
    description="Answer later.",
    kind="external",
    is_async=True,
    parameters={"type": "object", "properties": {}},
)
SLOW = tw.Tool(
    name="slow",
    description="Answer too late.",
    kind="external",
    timeout=0.01,
    parameters={"type": "object", "properties": {}},
)


async def test_calls_that_are_left_pending_are_part_of_its_result() -> None:
    below = Watched([calls(call("later"), call("slow")), {"text": "One waits."}])
    async with talking(app(ask_sums(), ["sums"], sums(below, [LATER, SLOW])), "boss") as talk:
        await talk.say()
        _, later, _ = await talk.calls()
        [result] = await talk.results()
        pending = {"status": "pending", "pendingToolCallId": later.id}
        late = "Tool timed out after 10ms"
        assert json.loads(result) == {
            "text": "One waits.",
            "toolCalls": [
                {"name": "later", "args": {}, "result": pending},
                {"name": "slow", "args": {}, "result": {"error": late}},
            ],
            "errors": [late],
        }


async def test_no_errors_are_shown_of_a_prompt_within_it_either() -> None:
    inner = tw.Prompt(
        "inner",
        "You fail.",
        tool_description="Fails.",
        expose_as_tool=True,
        model=Watched([calls(call("fail"), call("add", a=1, b=2)), {"text": "It failed."}]),
        tools=[fail, add],
    )
    below = Watched([call("inner", message="Try."), {"text": "Three."}])
    config = {"name": "sums", "includeErrors": False}
    async with talking(app(ask_sums(), [config], sums(below, ["inner"]), inner), "boss") as talk:
        await talk.say()
        [result] = await talk.results()
    made = [{**MADE[1], "result": None}, MADE[0]]
    within = {"text": "It failed.", "toolCalls": made}
    assert json.loads(result) == {
        "text": "Three.",
        "toolCalls": [{"name": "inner", "args": {"message": "Try."}, "result": within}],
    }
