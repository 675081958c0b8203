"""The model's reasoning: live, in messages, after a restart, and for nobody."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Literal, cast

import pytest

import toolwright as tw
from tests.kit import DONE, call
from tests.play import AT
from toolwright.core.errors import DefinitionError
from toolwright.core.json_value import JSONObject
from toolwright.core.model import (
    AttemptStarted,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    ReasoningDelta,
    TextDelta,
)
from toolwright.core.threads.message import MAX_REASONING, Message
from toolwright.testing import ScriptedModel, runtime
from toolwright.wire.event import message_payload
from toolwright.wire.run_events import RunEvents, RunRecords

pytestmark = pytest.mark.anyio

WHY = "The user greets me, so I greet back. " * 3
Readers = Literal["services", "everyone", "nobody"]


def thinker(readers: Readers = "services", thinking: str = WHY, delay: float = 0.02) -> tw.Agent:
    model = ScriptedModel([{"thinking": thinking, "text": "Hi.", "delay": delay}])
    return tw.Agent("thinker", instructions="", model=model, reasoning=readers)


async def values_of(agent: tw.Agent) -> list[tw.RunEvent]:
    async with tw.stream(agent, "Hello.") as stream:
        return [event async for event in stream]


def reasoning_of(events: list[tw.RunEvent]) -> str:
    return "".join([each.text for each in events if isinstance(each, tw.ReasoningDelta)])


async def test_reasoning_is_streamed_before_the_answer_and_kept_with_its_message() -> None:
    events = await values_of(thinker())
    kinds = [type(each) for each in events if isinstance(each, tw.ReasoningDelta | tw.TextDelta)]
    assert kinds.index(tw.TextDelta) > kinds.index(tw.ReasoningDelta)
    assert reasoning_of(events) == WHY
    done = events[-1]
    assert isinstance(done, tw.RunDone)
    [answer] = [each for each in done.result.messages if each.role == "assistant"]
    assert (answer.content, answer.reasoning, answer.reasoning_shared) == ("Hi.", WHY, False)
    assert done.result.text == "Hi."


async def test_reasoning_for_nobody_is_neither_streamed_nor_stored() -> None:
    events = await values_of(thinker("nobody"))
    done = events[-1]
    assert isinstance(done, tw.RunDone) and reasoning_of(events) == ""
    assert [each.reasoning for each in done.result.messages] == [None, None]


async def test_reasoning_is_stored_up_to_a_limit_and_survives_a_restart(tmp_path: Path) -> None:
    settings = tw.Settings(database_url=f"sqlite:///{tmp_path / 'journal.db'}")
    app = tw.App(agents=[thinker("everyone", "why " * MAX_REASONING, 0)])
    async with app.runtime(settings) as rt:
        thread = await rt.threads.create("thinker")
        await rt.runs.wait((await rt.threads.send(thread.id, "Hello.")).id, 20)
    async with app.runtime(settings) as rt:
        answer = (await rt.threads.messages(thread.id))[-1]
    assert answer.reasoning == ("why " * MAX_REASONING)[:MAX_REASONING]
    assert answer.reasoning_shared


class InTurns:
    """A model with two attempts, each of which shows one delta."""

    name = "test:in-turns"

    def __init__(self, first: ModelEvent, second: ModelEvent, answer: ModelResponse) -> None:
        self.read = asyncio.Event()
        self._first, self._second, self._answer = first, second, answer

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield self._first
        await self.read.wait()
        self.read.clear()
        yield AttemptStarted(number=2)
        yield self._second
        await self.read.wait()
        yield self._answer


@pytest.mark.parametrize(
    ("first", "second", "answer", "expected"),
    [
        (
            ReasoningDelta("Perhaps "),
            ReasoningDelta("Surely."),
            ModelResponse(text="Yes.", reasoning="Surely."),
            "Surely.",
        ),
        (ReasoningDelta("Perhaps "), ReasoningDelta("Surely."), ModelResponse(text="Yes."), "Surely."),
        (
            TextDelta("Half"),
            ReasoningDelta("Surely."),
            ModelResponse(text="Yes.", reasoning="Surely."),
            "Surely.",
        ),
        (ReasoningDelta("Perhaps"), TextDelta("Yes."), ModelResponse(text="Yes."), ""),
    ],
    ids=["reasoning twice", "only streamed", "text, then reasoning", "reasoning, then text"],
)
async def test_another_attempt_voids_text_and_reasoning_alike(
    first: ModelEvent, second: ModelEvent, answer: ModelResponse, expected: str
) -> None:
    model, reasoning, text, resets = InTurns(first, second, answer), "", "", 0
    async with tw.stream(tw.Agent("agent", instructions="", model=model), "Go.") as stream:
        async for event in stream:
            match event:
                case tw.ReasoningDelta(text=part):
                    reasoning += part
                    model.read.set()
                case tw.TextDelta(text=part):
                    text += part
                    model.read.set()
                case tw.TextReset():
                    reasoning, text, resets = "", "", resets + 1
                case tw.RunDone(result=result):
                    assert (result.messages[-1].reasoning or "") == expected
                case _:
                    pass
    assert (reasoning, text, resets) == (expected, "Yes.", 1)


async def test_long_reasoning_leaves_the_answer_in_its_event() -> None:
    message = Message(
        id="m",
        role="assistant",
        content="Hi.",
        reasoning="why " * 4_000,
        reasoning_shared=True,
        created_at=AT,
    )
    payload = message_payload(message)["message"]
    assert isinstance(payload, dict) and payload["content"] == "Hi."
    assert not {"reasoning", "reasoningShared"} & payload.keys()
    assert payload["reasoningTruncated"] is True


async def test_a_late_reader_reads_the_reasoning_too() -> None:
    async with runtime(tw.App(agents=[thinker()])) as rt:
        thread = await rt.threads.create("thinker")
        run = await rt.runs.wait((await rt.threads.send(thread.id, "Hello.")).id, 20)
        async with aclosing(rt.runs.stream(run.id)) as stream:
            assert reasoning_of([event async for event in stream]) == WHY


async def test_reasoning_of_a_process_that_ended_is_void_once_another_has_answered() -> None:
    for reasoning in ("New.", None):
        reader, values = RunEvents(cast("RunRecords", None)), list[tw.RunEvent]()  # the events are complete
        message: JSONObject = {"id": "m", "seq": 2, "role": "assistant", "content": "Yes."}
        message |= {} if reasoning is None else {"reasoning": reasoning}
        lost: JSONObject = {"streamId": "a.-1", "stepNumber": 1, "delta": "Old", "text": "Old"}
        events: list[tuple[str, JSONObject]] = [
            ("message.reasoning", lost),
            ("message", {"message": message}),
        ]
        for type_, payload in events:
            values += [each async for each in reader.values("thr", "run", type_, payload)]
        new = [] if reasoning is None else [tw.ReasoningDelta(reasoning)]
        assert values == [tw.ReasoningDelta("Old"), tw.TextReset(), *new, tw.TextDelta("Yes.")]


async def test_an_edited_message_has_no_reasoning_about_what_it_was() -> None:
    @tw.tool
    async def redact(state: tw.ThreadState) -> str:
        """Redact what was said."""
        [said] = [each.id for each in await state.get_messages() if each.content == "42"]
        state.update_message(said, "[removed]")
        return "done"

    answer = {"thinking": WHY, "text": "42"}
    turns: list[object] = [answer, {"when": "Redact", **call("redact")}, {"when": "done", **DONE}]
    agent = tw.Agent("agent", model=ScriptedModel(turns), tools=[redact], reasoning="everyone")
    async with runtime(tw.App(agents=[agent])) as rt:
        thread = await rt.threads.create("agent")
        for text in ("Go.", "Redact it."):
            await rt.runs.wait((await rt.threads.send(thread.id, text)).id, 20)
        [edited] = [each for each in await rt.threads.messages(thread.id) if each.content == "[removed]"]
    assert (edited.reasoning, edited.reasoning_shared) == (None, False)


async def test_the_effort_is_not_taken_for_the_readers() -> None:
    with pytest.raises(
        DefinitionError, match=r"reasoning names its readers, .* not 'high'. The effort is set on the"
    ):
        tw.Agent("a", instructions="", reasoning="high")  # type: ignore[arg-type]
