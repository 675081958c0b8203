"""A handler asks a person during its call: `state.elicit`."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import toolwright as tw
from tests import journals
from tests.kit import send_to
from toolwright import testing
from toolwright.core.errors import InvalidRequest
from toolwright.core.threads.call import Call
from toolwright.runtime.runtime import Runtime

pytestmark = pytest.mark.anyio

FORM = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
}


def trip(timeout: float | None = 300.0, question: object = FORM) -> tw.App:
    @tw.tool(timeout=timeout)
    async def plan(state: tw.ThreadState) -> dict[str, Any]:
        """Plan a trip."""
        answer = await state.elicit("Where to?", question)
        return {"action": answer.action, "content": answer.content, "reason": answer.reason}

    model = testing.ScriptedModel([{"calls": [{"name": "plan", "args": "{}"}]}, {"text": "done"}])
    return tw.App(agents=[tw.Agent("planner", tw.Prompt("planner", "Plan.", model=model, tools=[plan]))])


async def opened(rt: Runtime) -> tuple[Call, str]:
    """Return the run and its question, once it is open."""
    run = await send_to(rt, "planner")
    while True:
        calls = await rt.calls.list(run_id=run.id)
        if calls:
            return calls[0], run.id
        await asyncio.sleep(0)


async def result(rt: Runtime, run_id: str) -> str:
    run = await rt.runs.wait(run_id, timeout=30)
    messages = await rt.threads.messages(run.thread_id)
    return next(m.content for m in messages if m.role == "tool")


async def test_a_question_is_a_pending_call_that_is_answered_like_any() -> None:
    async with journals.runtime(trip()) as rt:
        call, run_id = await opened(rt)
        assert (call.name, call.kind, call.status) == ("elicit", "space", "waiting")
        await rt.calls.submit(run_id, call.id, {"action": "accept", "content": {"city": "Rome"}})
        assert await result(rt, run_id) == (
            '{"action":"accept","content":{"days":3,"city":"Rome"},"reason":null}'
        )


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_it_may_be_declined(action: str) -> None:
    async with journals.runtime(trip()) as rt:
        call, run_id = await opened(rt)
        await rt.calls.submit(run_id, call.id, {"action": action})
        assert f'"action":"{action}"' in await result(rt, run_id)


@pytest.mark.parametrize(
    ("answer", "words", "path"),
    [
        ("yes", "The answer to a question must be an object with an action", "result.action"),
        ({"action": "maybe"}, "'accept', 'decline' or 'cancel'", "result.action"),
        ({"action": "accept"}, "for: city: is missing.", "result.content.city"),
        ({"action": "accept", "content": {"city": 7}}, "city: must be a string", "result.content.city"),
    ],
)
async def test_what_does_not_answer_it_is_refused_and_changes_nothing(
    answer: Any, words: str, path: str
) -> None:
    async with journals.runtime(trip()) as rt:
        call, run_id = await opened(rt)
        with pytest.raises(InvalidRequest, match=words) as refused:
            await rt.calls.submit(run_id, call.id, answer)
        assert [each["path"] for each in refused.value.details] == [path]
        assert (await rt.calls.get(call.id)).status == "waiting"
        await rt.calls.submit(run_id, call.id, {"action": "cancel"})
        assert '"cancel"' in await result(rt, run_id)


class Trip(BaseModel):
    city: str
    days: int = 3

    @field_validator("city")
    @classmethod
    def look_up(cls, city: str) -> str:
        if city == "Atlantis":
            raise ValueError("there is no such city")
        if city == "Babel":
            raise RuntimeError("the map is torn")
        return city


@pytest.mark.parametrize(
    ("city", "words", "path"),
    [
        ("Atlantis", "for: city: there is no such city.", "result.content.city"),
        ("Babel", "for: the map is torn.", "result.content"),
    ],
)
async def test_an_answer_that_the_models_validators_reject_is_refused_while_the_question_is_open(
    city: str, words: str, path: str
) -> None:
    async with journals.runtime(trip(question=Trip)) as rt:
        call, run_id = await opened(rt)
        with pytest.raises(InvalidRequest, match=words) as refused:
            await rt.calls.submit(run_id, call.id, {"action": "accept", "content": {"city": city}})
        assert [each["path"] for each in refused.value.details] == [path]
        assert (await rt.calls.get(call.id)).status == "waiting"
        await rt.calls.submit(run_id, call.id, {"action": "accept", "content": {"city": "Rome"}})
        assert '"content":{"days":3,"city":"Rome"}' in await result(rt, run_id)


async def next_question(rt: Runtime, run_id: str, answered: Call) -> Call:
    """Return the open question of the run that comes after the answered one."""
    while True:
        calls = [call for call in await rt.calls.list(run_id=run_id) if call.id != answered.id]
        if calls:
            return calls[0]
        await asyncio.sleep(0)


def accepted_first() -> type[BaseModel]:
    """Return a model that accepts every second answer, as a process does that knows only the model's schema."""
    validations: list[str] = []

    class Stay(BaseModel):
        city: str

        @field_validator("city")
        @classmethod
        def look_up(cls, city: str) -> str:
            validations.append(city)
            if city == "Atlantis" and len(validations) % 2 == 0:
                raise ValueError("there is no such city")
            return city

    return Stay


async def test_an_answer_that_another_process_accepted_by_the_schema_alone_is_asked_for_again() -> None:
    async with journals.runtime(trip(question=accepted_first())) as rt:
        call, run_id = await opened(rt)
        await rt.calls.submit(run_id, call.id, {"action": "accept", "content": {"city": "Atlantis"}})
        again = await next_question(rt, run_id, call)
        assert json.loads(again.arguments)["message"] == (
            "Where to?\n\nThe content of the answer is not what was asked for: city: there is no such city."
        )
        await rt.calls.submit(run_id, again.id, {"action": "accept", "content": {"city": "Rome"}})
        assert '"content":{"city":"Rome"}' in await result(rt, run_id)


async def test_a_question_is_asked_three_times_at_most() -> None:
    async with journals.runtime(trip(question=accepted_first())) as rt:
        call, run_id = await opened(rt)
        for _ in range(2):
            await rt.calls.submit(run_id, call.id, {"action": "accept", "content": {"city": "Atlantis"}})
            call = await next_question(rt, run_id, call)
        await rt.calls.submit(run_id, call.id, {"action": "accept", "content": {"city": "Atlantis"}})
        assert "not what was asked for: city: there is no such city." in await result(rt, run_id)


@pytest.mark.idle_clock
async def test_the_timeout_of_the_tool_stops_while_a_person_thinks() -> None:
    async with journals.runtime(trip(timeout=0.05)) as rt:
        call, run_id = await opened(rt)
        await asyncio.sleep(1)
        await rt.calls.submit(run_id, call.id, {"action": "decline"})
        assert '"action":"decline"' in await result(rt, run_id)


async def test_a_run_that_is_cancelled_takes_its_question_back() -> None:
    async with journals.runtime(trip()) as rt:
        call, run_id = await opened(rt)
        await rt.runs.cancel(run_id)
        run = await rt.runs.wait(run_id, timeout=30)
        assert run.status == "cancelled"
        assert (await rt.calls.get(call.id)).status == "cancelled"


@pytest.mark.parametrize("question", [{"type": "string"}, {"type": "object", "properties": 1}, "form"])
async def test_an_invalid_question_is_an_error_of_its_handler(question: object) -> None:
    async with journals.runtime(trip(question=question)) as rt:
        run = await send_to(rt, "planner")
        assert "schema of a question" in await result(rt, run.id)


async def test_outside_a_run_no_one_is_asked_unless_someone_is_given() -> None:
    @tw.tool
    async def plan(state: tw.ThreadState) -> str:
        """Plan a trip."""
        return (await state.elicit("Where to?", FORM)).action

    async def accept(asked: dict[str, Any]) -> tw.Elicited:
        return tw.Elicited(action="accept", content={"city": asked["message"]})

    tools = tw.Toolset([plan])
    assert (await tools.call("plan", {})).result == "cancel"
    assert (await tools.call("plan", {}, testing.MemoryState(ask=accept))).result == "accept"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "ftp://a/b", "//a", ""])
async def test_people_are_only_sent_to_web_pages(url: str) -> None:
    @tw.tool
    async def pay(state: tw.ThreadState) -> str:
        """Pay."""
        with pytest.raises(InvalidRequest, match="must begin with https://"):
            await state.elicit("Please pay.", url=url)
        return "refused"

    model = testing.ScriptedModel([{"calls": [{"name": "pay", "args": "{}"}]}, {"text": "done"}])
    app = tw.App(agents=[tw.Agent("payer", tw.Prompt("payer", "Pay.", model=model, tools=[pay]))])
    async with journals.runtime(app) as rt:
        run = await send_to(rt, "payer")
        assert await result(rt, run.id) == "refused"
