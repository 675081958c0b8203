"""The live text of an answer is complete, for a follower that starts at any time."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.runtime.rig import running
from toolwright.core.model import (
    AttemptStarted,
    CallDelta,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    TextDelta,
)
from toolwright.core.threads.event import Event, Topic

pytestmark = pytest.mark.anyio


class Paced:
    """A model that sends each part when the test releases it."""

    name = "paced"

    def __init__(self, *parts: ModelEvent) -> None:
        self._parts = parts
        self.steps = asyncio.Semaphore(0)
        self.said = asyncio.Semaphore(0)

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for part in self._parts:
            await self.steps.acquire()
            yield part
            self.said.release()
        await self.steps.acquire()
        yield ModelResponse(text="done", model="paced")

    async def say(self, count: int) -> None:
        for _ in range(count):
            self.steps.release()
            await self.said.acquire()


async def told(parts: list[ModelEvent], alone: int) -> list[Event]:
    """Return the live events of a follower that starts after the first `alone` parts."""
    model = Paced(*parts)
    async with asyncio.timeout(20), running(model) as rig:
        thread = await rig.rt.threads.create("tester")
        topic = Topic(kind="thread", id=thread.id)
        run = await rig.rt.threads.send(thread.id, "Go")
        await model.say(alone)
        live: list[Event] = []
        async with rig.rt.events.following(topic) as events:
            await model.say(len(parts) - alone)
            model.steps.release()
            async for event in events:
                if event.n is None:
                    live.append(event)
                if event.type == "run.completed":
                    break
        await rig.rt.runs.wait(run.id, 10)
        return live


def words(*texts: str) -> list[ModelEvent]:
    return [TextDelta(text=text) for text in texts]


async def test_a_follower_that_comes_in_the_middle_reads_the_whole_text() -> None:
    live = await told(words("one ", "two ", "three"), 2)
    assert live[-1].payload["text"] == "one two three"


async def test_a_follower_of_the_second_attempt_reads_only_that() -> None:
    live = await told([*words("one "), AttemptStarted(number=2), *words("ONE ", "TWO")], 3)
    assert live[-1].payload["text"] == "ONE TWO"


async def test_the_arguments_of_a_call_are_whole_for_a_late_follower() -> None:
    parts: list[ModelEvent] = [
        CallDelta(index=0, name="add", arguments=""),
        CallDelta(index=0, name="add", arguments='{"a": 1'),
        CallDelta(index=0, name="add", arguments=', "b": 2}'),
    ]
    live = await told(parts, 2)
    assert live[-1].payload["partialArgs"] == {"a": 1, "b": 2}


class Flooding:
    """A model whose answer has arrived: it yields event after event without a pause, until others have run."""

    name = "flooding"

    def __init__(self) -> None:
        self.others_ran = self.was_paused = False

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        asyncio.get_running_loop().call_soon(setattr, self, "others_ran", True)
        for _ in range(2_000_000):
            yield TextDelta("word ")
            if self.others_ran:
                self.was_paused = True
                break
        yield ModelResponse(text="done", model="flooding")


async def test_a_long_answer_is_read_with_pauses_in_which_others_run() -> None:
    model = Flooding()
    async with running(model) as rig:
        run = await rig.run()
    assert (run.status, model.was_paused) == ("completed", True)
