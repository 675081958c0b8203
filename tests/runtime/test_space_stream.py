"""An agent's message is shown in its space while it is generated; a draft without a message is withdrawn."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolwright as tw
from tests import journals
from tests.behaviour.marks import requirement
from tests.runtime.test_spaces import CONFIRM, ENTER, House, calls, house, says
from toolwright.core.model import (
    AttemptStarted,
    CallDelta,
    ModelCall,
    ModelEvent,
    ModelRequest,
    ModelResponse,
)
from toolwright.core.threads.event import Event, Topic
from toolwright.core.threads.run import Usage

pytestmark = pytest.mark.anyio

Piece = tuple[int, str, str] | AttemptStarted
SECRET = "sk-canary-0123456789"


class Slow:
    """A model that streams its calls piece by piece, and pauses after each, so that followers are notified."""

    name = "slow"

    def __init__(self, *steps: Sequence[Piece]) -> None:
        self._steps = list(steps)

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        made: dict[int, list[str]] = {}
        for piece in self._steps[request.step - 1]:
            if isinstance(piece, AttemptStarted):
                made.clear()
                yield piece
                continue
            index, name, text = piece
            made.setdefault(index, [name]).append(text)
            yield CallDelta(index=index, name=name, arguments=text)
            await asyncio.sleep(0.06)  # longer than deltas are batched
        yield ModelResponse(
            text="" if made else "Done.",
            calls=tuple(
                ModelCall(id=f"c{index}", name=parts[0], arguments="".join(parts[1:]))
                for index, parts in sorted(made.items())
            ),
            usage=Usage(),
            finish_reason="stop",
            model="slow",
        )


ENTERS: list[Piece] = [(0, "enter_space", '{"spaceId": "tea"}')]


@asynccontextmanager
async def heard(*steps: Sequence[Piece], env: dict[str, str] | None = None) -> AsyncGenerator[list[Event]]:
    """Yield all events of the space from the agent's first text on, after the run has finished."""
    prompt = tw.Prompt("host", "You host.", model=Slow(ENTERS, *steps), tools=[CONFIRM], env=env or {})
    app = tw.App(agents=[tw.Agent("host", prompt, toolkits=["spaces"])])
    async with journals.runtime(app) as rt:
        husam = await rt.entities.create(external_id="husam", display_name="Husam")
        await rt.spaces.create("Tea", id="tea", members=[husam.id, "host"])
        events: list[Event] = []
        async with rt.events.following(Topic(kind="space", id="tea")) as following:
            spoken = await rt.spaces.say("tea", husam.id, "Hi")
            [run_id] = spoken.runs.values()
            async with asyncio.timeout(10):
                async for event in following.events:
                    events.append(event)
                    if event.type == "agent.inactive":
                        break
        await rt.runs.wait(run_id, 10)
        yield events


def of(events: Sequence[Event], *types: str) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in events if event.type in types]


async def test_words_appear_as_they_are_written_and_end_in_the_message() -> None:
    pieces: list[Piece] = [
        (0, "send_message", '{"te'),
        (0, "send_message", 'xt": "Hel'),
        (0, "send_message", 'lo!"}'),
    ]
    async with heard(pieces, []) as events:
        streamed = of(events, "space.message.streaming")
        assert [one["text"] for one in streamed] == ["Hel", "Hello!"]
        assert [one["delta"] for one in streamed] == ["Hel", "lo!"]
        last = of(events, "space.message")[-1]
        assert last["message"]["content"] == "Hello!"
        assert {one["streamId"] for one in streamed} == {last["streamId"]}
        assert all(event.n is None for event in events if event.type == "space.message.streaming")
        assert of(events, "space.message.aborted") == []


@requirement("S3-8.1-2")
async def test_arguments_of_a_visible_call_appear_as_they_are_written() -> None:
    pieces: list[Piece] = [(0, "confirmAction", '{"question": "Su'), (0, "confirmAction", 're?"}')]
    async with heard(pieces, []) as events:
        types = [event.type for event in events if event.type.startswith("tool.")]
        assert types == ["tool.started", "tool.streaming", "tool.streaming"]
        first, second = of(events, "tool.streaming")
        assert (first["partialArgs"], second["partialArgs"]) == ({"question": "Su"}, {"question": "Sure?"})
        shown = of(events, "space.message")[-1]["message"]["metadata"]
        [started] = of(events, "tool.started")
        assert shown["toolCallId"] == first["streamId"] == started["streamId"]


async def test_an_invisible_call_never_reaches_the_space() -> None:
    pieces: list[Piece] = [(0, "read_messages", '{"spaceId": '), (0, "read_messages", '"tea"}')]
    async with heard(pieces, []) as events:
        assert [event.type for event in events] == ["space.message", "agent.active", "agent.inactive"]


async def test_a_draft_without_a_message_is_withdrawn() -> None:
    faulty: list[Piece] = [(0, "send_message", '{"text": "Hel'), (0, "send_message", 'lo", "to": 1}')]
    async with heard(faulty, []) as events:
        [streamed, *_] = of(events, "space.message.streaming")
        assert of(events, "space.message.aborted") == [{"streamId": streamed["streamId"]}]
        assert len(of(events, "space.message")) == 1
    again: list[Piece] = [
        (0, "send_message", '{"text": "Wrong'),
        AttemptStarted(number=2),
        (0, "send_message", '{"text": "Right"}'),
    ]
    async with heard(again, []) as events:
        wrong, right = of(events, "space.message.streaming")
        assert of(events, "space.message.aborted") == [{"streamId": wrong["streamId"]}]
        assert of(events, "space.message")[-1]["streamId"] == right["streamId"] != wrong["streamId"]


async def test_nothing_is_streamed_without_a_reader() -> None:
    async with house([calls(ENTER), calls(says("Hello")), {"text": "."}]) as made:
        await made.hears("Hi")
        assert isinstance(made, House)
        assert all(event.n is not None for event in await made.rt.events.list(Topic(kind="spaces", id="")))
