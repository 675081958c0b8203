"""The model's reasoning: live, in messages, after a restart, and for nobody."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Literal

import pytest

import toolwright as tw
from toolwright.core.errors import DefinitionError
from toolwright.core.model import AttemptStarted, ModelEvent, ModelRequest, ModelResponse, ReasoningDelta
from toolwright.core.threads.message import MAX_REASONING
from toolwright.testing import ScriptedModel

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
    assert WHY.startswith(reasoning_of(events))
    done = events[-1]
    assert isinstance(done, tw.RunDone)
    [answer] = [each for each in done.result.messages if each.role == "assistant"]
    assert (answer.content, answer.reasoning, answer.shared) == ("Hi.", WHY, False)
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
    assert answer.shared


class Restarting:
    """A model whose first attempt reasons and breaks off."""

    name = "test:restarting"

    def __init__(self) -> None:
        self.read = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        yield ReasoningDelta("Perhaps ")
        await self.read.wait()
        self.read.clear()
        yield AttemptStarted(number=2)
        yield ReasoningDelta("Surely.")
        await self.read.wait()
        yield ModelResponse(text="Yes.", reasoning="Surely.")


async def test_reasoning_that_broke_off_begins_again_after_a_reset() -> None:
    model, reasoning, text = Restarting(), "", ""
    async with tw.stream(tw.Agent("agent", instructions="", model=model), "Go.") as stream:
        async for event in stream:
            match event:
                case tw.ReasoningDelta(text=part):
                    reasoning += part
                    model.read.set()
                case tw.TextDelta(text=part):
                    text += part
                case tw.TextReset():
                    reasoning, text = "", ""
                case _:
                    pass
    assert (reasoning, text) == ("Surely.", "Yes.")


async def test_the_effort_is_not_taken_for_the_readers() -> None:
    with pytest.raises(
        DefinitionError, match=r"reasoning says who reads it, .* not 'high'. The effort is set on the"
    ):
        tw.Agent("a", instructions="", reasoning="high")  # type: ignore[arg-type]
