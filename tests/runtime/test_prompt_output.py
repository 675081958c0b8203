"""Prompts with an output: an agent's answer is validated and corrected; its tools are called as usual."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import toolwright as tw
from tests.kit import Watched, ran
from tests.runtime.rig import assert_valid, running
from toolwright.core.errors import DefinitionError, InvalidConfiguration
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.model import ModelRequest
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run
from toolwright.testing import runtime

pytestmark = pytest.mark.anyio

CITY: JSONObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["city"],
}
BERLIN: JSONObject = {"city": "Berlin", "people": 1}
LOOK: JSONObject = {"calls": [{"name": "look", "args": {"city": "Berlin"}}]}


class City(BaseModel):
    city: str

    @field_validator("city")
    @classmethod
    def check(cls, city: str) -> str:
        if not city.istitle():
            raise ValueError("must be a name")
        return city


@tw.tool(description="Look a city up.")
def look(city: str) -> str:
    return f"{city} is big"


def text(output: JSON) -> JSONObject:
    return {"text": json.dumps(output)}


async def answered(
    turns: list[JSONObject], output: object = CITY, **options: Any
) -> tuple[Run, list[Message], Watched]:
    """Return a run of an agent with that output, its messages, and its model."""
    model = Watched(turns)
    async with running(model, [look], prompt_options={"output": output}, **options) as rig:
        run = await rig.run()
        messages = [*await rig.transcript(run.thread_id)]
    assert_valid(messages)
    return run, messages, model


async def test_an_answer_that_fits_is_the_output_of_the_run() -> None:
    run, messages, model = await answered([text(BERLIN)])
    assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", BERLIN)
    assert messages[-1].content == json.dumps(BERLIN)
    [request] = model.requests
    assert request.answer is not None
    assert request.answer.schema == CITY
    assert [tool.name for tool in request.tools] == ["look"]


async def test_tools_are_called_natively_and_only_the_answer_is_validated() -> None:
    run, messages, model = await answered([{**LOOK, "text": "I look."}, text(BERLIN)])
    assert (run.status, run.output, run.step_count) == ("completed", BERLIN, 2)
    assert [(m.role, m.content) for m in messages] == [
        ("user", "Go"),
        ("assistant", "I look."),
        ("tool", "Berlin is big"),
        ("assistant", json.dumps(BERLIN)),
    ]
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "tool"]
    assert model.requests[1].answer is model.requests[0].answer


async def test_an_invalid_answer_is_sent_back_twice_and_then_the_run_has_failed() -> None:
    run, messages, model = await answered([{"text": "Berlin."}, text({"city": 1}), text({}), text(BERLIN)])
    assert (run.status, run.output, run.step_count) == ("failed", None, 3)
    assert run.error == (
        "The model's answer broke its schema 3 times in a row: city: is missing. The last answer: {}"
    )
    assert run.error_code == "output"
    assert [m.role for m in messages] == ["user", "assistant", "user", "assistant", "user", "assistant"]
    assert "the text is not valid JSON" in messages[2].content
    assert "city: must be a string, not a number" in messages[4].content
    assert len(model.requests) == 3


async def test_a_call_between_restarts_the_count() -> None:
    bad: JSONObject = {"text": "No."}
    run, _, _ = await answered([bad, bad, LOOK, bad, bad, text(BERLIN)])
    assert (run.status, run.output, run.step_count) == ("completed", BERLIN, 6)


async def test_each_run_of_a_thread_has_its_own_corrections() -> None:
    bad: JSONObject = {"text": "No."}
    async with running(
        Watched([bad, bad, text(BERLIN)]), prompt_options={"output": CITY}, max_steps=2
    ) as rig:
        thread = await rig.rt.threads.create("tester")
        for _ in range(3):
            run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 20)
            assert (run.status, run.stop_reason, run.output) == ("completed", "max_steps", None)


@pytest.mark.parametrize("said", [["berlin", "Berlin"], ["berlin", "berlin", "Berlin"]])
async def test_an_output_that_is_a_type_is_validated_by_its_validators(said: list[str]) -> None:
    run, messages, _ = await answered([text({"city": city}) for city in said], City)
    assert (run.status, run.output, run.step_count) == ("completed", {"city": "Berlin"}, len(said))
    assert "city: must be a name" in messages[2].content


async def test_an_output_may_be_null() -> None:
    run, _, _ = await answered([text(None)], City | None)
    assert (run.status, run.stop_reason, run.output) == ("completed", "end_turn", None)


async def test_messages_that_join_do_not_restart_the_count() -> None:
    async def interrupt(_: ModelRequest) -> None:
        if len(model.requests) < 3:
            await rig.rt.threads.send(thread.id, f"And {len(model.requests)}?")

    model = Watched([{"text": "No."}] * 9, interrupt)
    async with running(model, prompt_options={"output": CITY}) as rig:
        thread = await rig.rt.threads.create("tester")
        run = await rig.rt.runs.wait((await rig.rt.threads.send(thread.id, "Go")).id, 20)
        assert run.status == "failed"
        assert len(model.requests) == 3


async def test_an_agent_that_takes_over_keeps_its_own_output() -> None:
    helper = tw.Agent(
        "helper",
        tw.Prompt(
            "helper", model=Watched([text(BERLIN)]), tools=[{"name": "scout", "immediate": True}], output=CITY
        ),
        expose_as_tool=True,
        tool_description="Helps.",
    )
    scout = tw.Agent(
        "scout",
        tw.Prompt("scout", model=Watched([{"text": "Found."}])),
        expose_as_tool=True,
        tool_description="Scouts.",
    )
    over: JSONObject = {"text": "I hand over.", "calls": [{"name": "helper", "args": {}}]}
    first = tw.Agent(
        "first",
        tw.Prompt(
            "first",
            model=Watched([over]),
            tools=["helper"],
        ),
    )
    async with runtime(tw.App(agents=[first, helper, scout])) as rt:
        run = await ran(rt, "first")
        assert (run.status, run.output) == ("completed", BERLIN)


async def test_the_output_of_a_child_is_the_result_of_its_call() -> None:
    child = tw.Agent(
        "child",
        tw.Prompt("child", model=Watched([text(BERLIN)]), output=City),
        expose_as_tool=True,
        tool_description="Knows cities.",
    )
    calls: JSONObject = {"calls": [{"name": "child", "args": {"message": "Where?"}}]}
    parent = tw.Agent(
        "parent", tw.Prompt("parent", model=Watched([calls, {"text": "There."}]), tools=[{"name": "child"}])
    )
    async with runtime(tw.App(agents=[parent, child])) as rt:
        run = await ran(rt, "parent")
        [call] = await rt.calls.list(run_id=run.id, status=())
        assert call.result == {"status": "success", "result": BERLIN}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (5, "The output schema of the prompt 'a' must be a JSON Schema or a type, not 5"),
        ("object", "The output schema of the prompt 'a' must be a JSON Schema or a type, not 'object'"),
        ({"type": "objekt"}, "The output schema of the prompt 'a' is invalid: type "),
        (look.handler, "The output schema of the prompt 'a' "),
    ],
)
def test_an_invalid_output_is_refused_when_the_prompt_is_made(output: object, words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        tw.Prompt("a", output=output)
    assert caught.value.message.startswith(words)


def test_the_errors_of_an_output_have_their_paths() -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        tw.Prompt("a", output={"properties": {"x": {"type": 5}}})
    assert [each["path"] for each in caught.value.details] == ["properties.x.type"]


def test_an_output_is_as_it_was_when_the_prompt_was_made() -> None:
    schema: JSONObject = {"type": "object", "properties": {}}
    agent = tw.Agent("a", tw.Prompt("a", output=schema))
    schema["type"] = "array"
    form = tw.App(agents=[agent]).catalog.active(agent.id).form
    assert form is not None
    assert form.schema.schema == {"type": "object", "properties": {}}


def test_prompts_that_are_tools_and_agents_of_two_sides_have_no_output() -> None:
    with pytest.raises(DefinitionError, match="Prompt 'a' is exposed as a tool, so it cannot have an output"):
        tw.Prompt("a", output=CITY, expose_as_tool=True, tool_description="A.")
    sides = [tw.Prompt("a"), tw.Prompt("b", output=CITY)]
    for one, other in (sides, sides[::-1]):
        agent = tw.Agent("talk", one, other, type="dual_ai")
        with pytest.raises(
            DefinitionError, match="Agent 'talk' talks with itself, so its prompt 'b' can have no"
        ):
            tw.App(agents=[agent])
    with pytest.raises(
        DefinitionError, match=r"Agent 'a' has a side_a: its output= belongs to the prompt there"
    ):
        tw.Agent("a", tw.Prompt("a"), output=CITY)
