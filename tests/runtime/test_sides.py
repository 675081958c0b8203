"""Agents with two sides, and the ends of a side's turn and of a session (decisions D22, D23)."""

from collections.abc import Mapping
from typing import Any

import pytest

import toolwright as tw
from tests.kit import Watched, add, call, calls
from tests.runtime.talk import assert_answered, heard, says, talking

pytestmark = pytest.mark.anyio


@tw.tool(description="Finish.")
async def finish(answer: str | list[int] | None = None) -> str:
    return "finished"


@tw.tool(description="Fail, at first.")
async def brittle(answer: str) -> str:
    if answer == "bad":
        raise RuntimeError("no luck")
    return "finished"


def both(
    a: object,
    b: object,
    side_a: Mapping[str, Any] | None = None,
    side_b: Mapping[str, Any] | None = None,
    turns: int | None = 1,
    tools: Any = (),
) -> tw.App:
    one = tw.Side(tw.Prompt("one", "You are a.", model=a, tools=tools), **(side_a or {}))
    two = tw.Side(tw.Prompt("two", "You are b.", model=b, tools=tools), **(side_b or {}))
    return tw.App(agents=[tw.Agent("both", one, two, type="dual_ai", max_session_turns=turns)])


def alone(model: object, tools: Any, **side: Any) -> tw.App:
    prompt = tw.Prompt("main", model=model, tools=tools)
    return tw.App(agents=[tw.Agent("boss", tw.Side(prompt, **side))])


async def test_the_sides_answer_each_other_and_each_sees_itself_as_the_assistant() -> None:
    a, b = says("a1", "a2"), says("b1", "b2")
    async with talking(both(a, b, turns=2), "both") as talk:
        run = await talk.say("Go")
        assert (run.status, run.stop_reason, run.output, run.turn) == ("completed", "end_turn", "b2", 4)
        assert [(m.side, m.content) for m in await talk.messages()] == [
            (None, "Go"), ("side_a", "a1"), ("side_b", "b1"), ("side_a", "a2"), ("side_b", "b2"),
        ]  # fmt: skip
        assert heard(a) == [("user", "Go"), ("assistant", "a1"), ("user", "b1")]
        assert heard(b) == [("user", "Go"), ("user", "a1"), ("assistant", "b1"), ("user", "a2")]
        assert [request.system for request in (*a.requests, *b.requests)] == ["You are a."] * 2 + [
            "You are b."
        ] * 2


async def test_a_side_is_not_shown_the_calls_of_the_other_one() -> None:
    a = Watched([{"text": "Let me add.", **call("add", a=1, b=2)}, {"text": "It is 3."}])
    b = says("Fine.")
    async with talking(both(a, b, tools=[add]), "both") as talk:
        await talk.say("Go")
        assert heard(b) == [("user", "Go"), ("user", "Let me add."), ("user", "It is 3.")]
        assert all(not message.calls for message in b.requests[0].messages)
        assert_answered(a)


async def test_a_later_message_begins_a_new_session_with_the_whole_history() -> None:
    a, b = Watched([{"when": "Go", "text": "a1"}, {"when": "More", "text": "a2"}]), says("b1")
    async with talking(both(a, b), "both") as talk:
        await talk.say("Go")
        run = await talk.say("More")
        assert (run.status, run.turn) == ("completed", 2)
        assert heard(a) == [("user", "Go"), ("assistant", "a1"), ("user", "b1"), ("user", "More")]


async def test_without_stop_on_response_the_same_side_goes_on_until_something_ends_its_turn() -> None:
    a = Watched([{"text": "Thinking."}, {"text": "Still."}, call("finish", answer="At last.")])
    b = says("b1")
    side = {"stop_on_response": False, "stop_tool": "finish", "stop_tool_response_property": "answer"}
    async with talking(both(a, b, side, tools=[finish]), "both") as talk:
        run = await talk.say("Go")
        assert (run.status, run.step_count) == ("completed", 4)
        assert heard(a, 1) == [("user", "Go"), ("assistant", "Thinking."), ("user", "Go on.")]
        assert heard(b)[-1] == ("user", "At last.")
        assert [m.content for m in await talk.messages() if m.role == "user"] == ["Go"]


async def test_one_that_never_stops_ends_at_its_limit() -> None:
    a = says(*["Thinking."] * 9)
    async with talking(alone(a, [], stop_on_response=False, max_steps=3), "boss") as talk:
        run = await talk.say("Go")
        assert (run.stop_reason, len(a.requests)) == ("max_steps", 3)


@pytest.mark.parametrize(
    ("args", "property_", "output"),
    [
        ({"answer": "done"}, "answer", "done"),
        ({"answer": [1, 2]}, "answer", [1, 2]),
        ({"answer": None}, "answer", None),
        ({}, "answer", "I am done."),
        ({"answer": "done"}, None, "I am done."),
    ],
)
async def test_a_stop_tool_ends_the_run_with_its_property(
    args: dict[str, Any], property_: str | None, output: object
) -> None:
    model = Watched([{"text": "I am done.", **call("finish", **args)}, {"text": "Never."}])
    side = {"stop_tool": "finish", "stop_tool_response_property": property_}
    async with talking(alone(model, [finish], **side), "boss") as talk:
        run = await talk.say("Go")
        assert (run.status, run.stop_reason, run.output) == ("completed", "stop_tool", output)
        assert len(model.requests) == 1


@pytest.mark.parametrize("ending", ["session_stop", "session_fail"])
async def test_a_tool_that_ends_the_session_need_not_take_the_property_of_the_stop_tool(ending: str) -> None:
    @tw.tool(description="Gives up.")
    async def give_up() -> str:
        return "given up"

    model = Watched([{"text": "It is no use.", **call("give_up")}])
    side = {"stop_tool": "finish", "stop_tool_response_property": "answer", ending: "give_up"}
    async with talking(alone(model, [finish, give_up], **side), "boss") as talk:
        run = await talk.say("Go")
        assert (run.stop_reason, run.output) == (ending, "It is no use.")


async def test_a_stop_tool_that_fails_does_not_stop_and_its_words_are_not_heard() -> None:
    a = Watched([call("brittle", answer="bad"), call("brittle", answer="good")])
    b = says("b1")
    side = {"stop_tool": "brittle", "stop_tool_response_property": "answer"}
    async with talking(both(a, b, side, tools=[brittle]), "both") as talk:
        await talk.say("Go")
        assert heard(b) == [("user", "Go"), ("user", "good")]


@pytest.mark.parametrize("reason", ["session_stop", "session_fail"])
async def test_a_tool_ends_the_whole_session(reason: str) -> None:
    a = Watched([calls(call("finish", answer="x"), call("add", a=1, b=1))])
    async with talking(both(a, says("Never."), {reason: "finish"}, tools=[finish, add]), "both") as talk:
        run = await talk.say("Go")
        assert (run.status, run.stop_reason) == ("completed", reason)
        assert await talk.results() == ["finished", "2"]


async def test_max_steps_are_those_of_the_side_even_if_both_speak_through_one_prompt() -> None:
    model = says(*["x"] * 9)
    prompt = tw.Prompt("one", model=model)
    agent = tw.Agent("both", tw.Side(prompt, max_steps=2), prompt, type="dual_ai")
    async with talking(tw.App(agents=[agent]), "both") as talk:
        run = await talk.say("Go")
        assert (run.stop_reason, run.step_count, run.side) == ("max_steps", 4, "side_a")


async def test_handlers_end_the_turn_of_their_side_or_the_session() -> None:
    seen: list[str] = []

    @tw.tool(description="Stop the side.")
    async def enough(state: tw.ThreadState) -> str:
        seen.append(state.execution.current_side)
        state.queue_tool("add", {"a": 1, "b": 1})
        state.execution.stop_side()
        return "enough"

    @tw.tool(description="Stop the session.")
    async def over(state: tw.ThreadState) -> str:
        seen.append(state.execution.current_side)
        state.execution.stop_session()
        return "over"

    a = Watched([calls(call("enough"), call("add", a=1, b=2)), {"text": "Never."}])
    b = Watched([call("over"), {"text": "Never."}])
    async with talking(both(a, b, tools=[enough, over, add], turns=None), "both") as talk:
        run = await talk.say("Go")
        assert (run.stop_reason, seen) == ("session_stop", ["side_a", "side_b"])
        enough_, unbegun, over_ = await talk.results()
        assert (enough_, over_) == ("enough", "over")
        assert "before this call began" in unbegun
        assert [name for _, name, _ in await talk.made()] == ["enough", "add", "over"]
        assert_answered(b)


async def test_stop_side_in_the_last_turn_ends_the_session() -> None:
    @tw.tool(description="Stop the side.")
    async def enough(state: tw.ThreadState) -> str:
        state.execution.stop_side()
        return "enough"

    b = Watched([call("enough"), {"text": "Never."}])
    async with talking(both(says("a1"), b, tools=[enough]), "both") as talk:
        run = await talk.say("Go")
        assert (run.status, run.stop_reason, run.step_count) == ("completed", "end_turn", 2)


async def test_what_is_queued_in_the_last_step_of_a_turn_is_dropped() -> None:
    @tw.tool(description="Queue.")
    async def queue(state: tw.ThreadState) -> str:
        state.queue_tool("add", {"a": 1, "b": 1})
        return "queued"

    a = Watched([calls(call("queue"), call("finish"))])
    b = says("b1")
    async with talking(both(a, b, {"stop_tool": "finish"}, tools=[queue, finish, add]), "both") as talk:
        await talk.say("Go")
        assert [name for _, name, _ in await talk.made()] == ["queue", "finish"]


async def test_a_message_that_joins_is_heard_by_both_sides() -> None:
    a, b = says("a1", "a2"), says("b1", "b2")

    @tw.tool(description="Write.")
    async def write(state: tw.ThreadState) -> str:
        await talk.rt.threads.post(state.thread_id, "And this")
        return "written"

    a = Watched([call("write"), {"text": "a1"}, {"text": "a2"}])
    async with talking(both(a, b, tools=[write], turns=2), "both") as talk:
        run = await talk.say("Go")
        assert (run.status, run.turn) == ("completed", 4)
        assert ("user", "And this") in heard(a, 1)
        assert ("user", "And this") in heard(b)


async def test_a_prompt_tool_ends_the_turn_of_the_side_that_calls_it() -> None:
    @tw.tool(description="Stop the side.")
    async def enough(state: tw.ThreadState) -> str:
        state.execution.stop_side()
        return "enough"

    below = tw.Prompt(
        "sums", tool_description="Sums.", expose_as_tool=True, tools=[enough],
        model=Watched([call("enough"), {"text": "Never."}]),
    )  # fmt: skip
    a, b = Watched([calls(call("sums", message="x"), call("add", a=1, b=1)), {"text": "Never."}]), says("b1")
    one, two = tw.Prompt("one", model=a, tools=["sums", add]), tw.Prompt("two", model=b)
    agent = tw.Agent("both", one, two, type="dual_ai", max_session_turns=1)
    async with talking(tw.App(agents=[agent], prompts=[below]), "both") as talk:
        run = await talk.say("Go")
        assert (run.status, run.output, run.step_count) == ("completed", "b1", 2)
        assert await talk.made() == [("", "sums", "error"), ("", "add", "error"), ("1", "enough", "done")]
        assert [m.status for m in await talk.messages() if m.role == "tool"] == ["error", "error"]
