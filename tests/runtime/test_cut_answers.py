"""Answers that are not whole: none of their calls is executed, and run, step and caller know the reason."""

import asyncio
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import toolwright as tw
from tests.kit import DONE, Watched, call, calls
from tests.runtime.family_rig import home, worker
from tests.runtime.solving import SUMMARY, Raw, greeting
from tests.runtime.talk import Talk, assert_answered, says, talking
from toolwright.core.model import ModelResponse, call_not_executed
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import CutReason, Run
from toolwright.runtime.model.answer import EMPTY
from toolwright.testing import runtime
from toolwright.wire.run import run_with_steps

pytestmark = pytest.mark.anyio

HALF = {"text": "The result is 1", "stop_reason": "max_tokens"}
REASONS = ["max_tokens", "refusal", "content_filter"]
CUT_CALL = {**call("clear"), "stop_reason": "max_tokens"}
NOTHING = {"text": " \n"}


class Cleared(list[bool]):
    """What the tool was called with."""


def clearing(cleared: Cleared) -> tw.Tool:
    @tw.tool(description="Clear the list.")
    async def clear(everything: bool = True) -> str:
        cleared.append(everything)
        return "cleared"

    return clear


def agent(model: object, *tools: Any, **options: Any) -> tw.App:
    prompt = tw.Prompt("main", "You work.", model=model, tools=[*tools], **options)
    return tw.App(agents=[tw.Agent("boss", prompt)])


async def steps_of(talk: Talk, run: Run) -> list[str | None]:
    """Return the reason of each step in the run's JSON."""
    steps = await talk.rt.runs.steps(run.id)
    return [step.get("stopReason") for step in run_with_steps(run, steps, [])["steps"]]  # type: ignore[union-attr]


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("arguments", ["", "{}", '{"everything": tr'])
async def test_no_call_of_an_answer_at_the_output_limit_is_executed_and_the_model_reads_why(
    arguments: str,
) -> None:
    cleared = Cleared()
    cut = {"calls": [{"name": "clear", "args": arguments}, {"name": "clear"}], "stop_reason": "max_tokens"}
    model = Watched([cut, {"text": "Done."}])
    async with talking(agent(model, clearing(cleared)), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", "Done.")
        assert await steps_of(talk, run) == ["max_tokens", None]
        results = [each.result for each in (await talk.rt.runs.result(run.id)).calls]
        assert results == [call_not_executed("max_tokens")] * 2
        assert all("max_tokens" in result for result in await talk.results())
    assert cleared == []
    assert_answered(model)


async def test_an_answer_whose_calls_are_cut_three_times_in_a_row_ends_the_run() -> None:
    cleared = Cleared()
    turns = [CUT_CALL, CUT_CALL, call("clear"), CUT_CALL, CUT_CALL, CUT_CALL, {"text": "Done."}]
    async with talking(agent(Watched(turns), clearing(cleared)), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason, run.step_count) == ("completed", "max_tokens", 6)
    assert cleared == [True]


@pytest.mark.parametrize("reason", ["refusal", "content_filter"])
async def test_a_refused_or_filtered_answer_ends_the_run_and_none_of_its_calls_is_executed(
    reason: str,
) -> None:
    cleared = Cleared()
    turns = [{**call("clear"), "text": "I will not.", "stop_reason": reason}, {"text": "Here again."}]
    model = Watched(turns)
    async with talking(agent(model, clearing(cleared)), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason, run.output) == ("completed", reason, "I will not.")
        assert await talk.made() == [("", "clear", "error")]
        await talk.say("Then something else.")
    assert cleared == []
    assert_answered(model)


async def test_of_a_cut_answer_with_thousands_of_calls_the_first_are_recorded_in_its_unit() -> None:
    cleared = Cleared()
    model = Watched([{**calls(*[call("clear")] * 3_000), "stop_reason": "max_tokens"}, {"text": "Done."}])
    async with talking(agent(model, clearing(cleared)), "boss") as talk:
        assert (await talk.say()).output == "Done."
        assert len(await talk.results()) == 100
    assert cleared == []


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reason", REASONS)
async def test_run_step_event_and_result_have_the_reason_of_half_an_answer(reason: str) -> None:
    half = {"text": "The result is 1", "stop_reason": reason}
    async with talking(agent(Watched([half])), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason, run.output) == ("completed", reason, "The result is 1")
        assert await steps_of(talk, run) == [reason]
        result = await talk.rt.runs.result(run.id)
        assert (result.stop_reason, result.text) == (reason, "The result is 1")
        told: dict[str, object] = {}
        async with asyncio.timeout(10):
            async for event in talk.rt.events.follow(Topic(kind="thread", id=talk.thread_id), after=0):
                told[event.type] = event.payload.get("stopReason")
                if event.type == "run.completed":
                    break
        assert (told["step.done"], told["run.completed"]) == (reason, reason)


@pytest.mark.parametrize("reason", REASONS)
async def test_the_events_of_a_stream_have_the_reason(reason: CutReason) -> None:
    model = Watched([{"text": "I will", "stop_reason": reason}])
    async with tw.stream(tw.Agent("boss", instructions="", model=model), "Go") as stream:
        events = [event async for event in stream]
    assert [event.stop_reason for event in events if isinstance(event, tw.StepDone)] == [reason]
    assert isinstance(events[-1], tw.RunDone)
    assert events[-1].result.stop_reason == reason


class Report(BaseModel):
    title: str


@pytest.mark.parametrize(
    ("reason", "output"), [("max_tokens", None), ("content_filter", None), ("refusal", '{"title": "Ha')]
)
async def test_half_an_answer_in_a_declared_form_is_not_asked_for_again_and_no_output(
    reason: str, output: object
) -> None:
    model = Watched([{"text": '{"title": "Ha', "stop_reason": reason}])
    boss = tw.Agent("boss", instructions="", model=model, output=Report)
    result = await tw.run(boss, "Go")
    assert (result.status, result.stop_reason, result.output) == ("completed", reason, output)
    assert result.text == '{"title": "Ha'
    assert len(model.requests) == 1


@pytest.mark.parametrize("reason", REASONS)
async def test_a_composed_request_passes_the_reason_on(reason: str) -> None:
    model = Raw(ModelResponse(text='{"output": {"summ', finish_reason=reason))
    async with runtime(tw.App(registry=greeting())) as rt:
        solution = await rt.request({"model": model}, SUMMARY, "Sum up.")
    assert (solution.output, solution.stop_reason, len(model.requests)) == (None, reason, 1)


# ── empty answers ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", " \n"])
@pytest.mark.parametrize("first", [[], [call("clear")]])
async def test_an_empty_answer_is_asked_for_again_once(text: str, first: list[object]) -> None:
    model = Watched([*first, {"text": text, "thinking": "Hm."}, {"text": "Done."}])
    async with talking(agent(model, clearing(Cleared())), "boss") as talk:
        run = await talk.say()
        assert (run.stop_reason, run.output) == ("end_turn", "Done.")
        assert (await steps_of(talk, run))[-2:] == ["empty", None]
        assert model.requests[-1].messages[-1].content == EMPTY


async def test_two_empty_answers_in_a_row_end_the_run_as_empty() -> None:
    model = Watched([NOTHING, call("clear"), NOTHING, NOTHING, {"text": "Done."}])
    async with talking(agent(model, clearing(Cleared())), "boss") as talk:
        run = await talk.say()
        assert (run.status, run.stop_reason, run.step_count) == ("completed", "empty", 4)


async def test_an_empty_answer_at_the_last_step_is_empty() -> None:
    boss = tw.Agent("boss", instructions="", model=Watched([NOTHING]), max_steps=1)
    assert (await tw.run(boss, "Go")).stop_reason == "empty"


async def test_an_agent_that_has_nothing_to_say_to_an_event_is_not_asked_again() -> None:
    model = Watched([{"text": ""}])
    boss = tw.Agent("boss", instructions="", model=model)
    async with runtime(tw.App(agents=[boss])) as rt:
        event = await rt.inboxes.trigger("boss", "clock", {"hour": 9})
        async with asyncio.timeout(10):
            async for told in rt.events.follow(Topic(kind="thread", id=event.thread_id), after=0):
                if told.type == "run.completed":
                    break
        [run] = await rt.runs.list()
    assert (run.stop_reason, len(model.requests)) == ("end_turn", 1)


# ── callers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reason", get_args(CutReason))
async def test_half_an_answer_of_a_child_is_an_error_of_its_call(reason: str) -> None:
    half = {"text": ""} if reason == "empty" else {"text": "One and", "stop_reason": reason}
    async with home(worker([half, half]), {}, [call("worker", message="Do it"), DONE]) as at:
        thread = await at.ran()
        [result] = await at.results(thread.id)
        assert result["error_code"] == reason
        assert ("One and" in result["error"]) == (reason != "empty")


def summing(below: Watched, **options: Any) -> tw.App:
    sums = tw.Prompt(
        "sums", "You sum.", tool_description="Sums.", expose_as_tool=True, model=below, **options
    )
    main = tw.Prompt("main", "You ask.", tools=["sums"], model=Watched([call("sums", message="Go"), DONE]))
    return tw.App(agents=[tw.Agent("boss", main)], prompts=[sums])


@pytest.mark.parametrize("reason", get_args(CutReason))
async def test_half_an_answer_of_a_prompt_tool_is_an_error_of_its_call(reason: str) -> None:
    half = {"text": ""} if reason == "empty" else {"text": "One and", "stop_reason": reason}
    below = Watched([half, half])
    async with talking(summing(below), "boss") as talk:
        run = await talk.say()
        [result] = await talk.results()
        assert f'"error_code":"{reason}"' in result
        assert (run.output, len(below.requests)) == ("Done.", 2 if reason == "empty" else 1)
        assert run.usage.output_tokens > 2


async def test_a_cut_call_within_a_prompt_tool_is_not_executed_and_the_prompt_reads_why() -> None:
    cleared = Cleared()
    below = Watched([CUT_CALL, {"text": ""}, {"text": "Three."}])
    async with talking(summing(below, tools=[clearing(cleared)]), "boss") as talk:
        await talk.say()
        assert '"text":"Three."' in (await talk.results())[-1]
    assert cleared == []
    assert "max_tokens" in below.requests[1].messages[-1].content
    assert below.requests[2].messages[-1].content == EMPTY
    assert_answered(below)


async def test_a_handlers_own_question_to_the_model_has_the_reason() -> None:
    asked: list[tuple[str, object]] = []

    @tw.tool(description="Ask the model.")
    async def ask(state: tw.ThreadState) -> str:
        answer = await state.sample("How much?")
        asked.append((answer.text, answer.stop_reason))
        return "asked"

    turns = [
        call("ask"),
        {"text": "About ", "stop_reason": "max_tokens", "when": "How much?"},
        {"text": "Done."},
    ]
    async with talking(agent(Watched(turns), ask), "boss") as talk:
        await talk.say()
    assert asked == [("About ", "max_tokens")]


async def test_a_whole_answer_has_no_reason() -> None:
    async with talking(agent(says("Done.")), "boss") as talk:
        run = await talk.say()
        assert (run.stop_reason, await steps_of(talk, run)) == ("end_turn", [None])
