"""Streams of runs as values: of threads and of runs, live and afterwards, complete for any length."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

import toolwright as tw
from tests.kit import call, send_to
from toolwright.core.errors import NotFound
from toolwright.core.model import AttemptStarted, ModelEvent, ModelRequest, ModelResponse, TextDelta
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel, runtime

pytestmark = pytest.mark.anyio

LONG = "All work and no play. " * 4_000


@tw.tool
async def echo(state: tw.ThreadState, text: str) -> tw.ToolResult:
    """Say it again."""
    state.progress(1, 2, "half")
    png = tw.Attachment(name="a.png", mime_type="image/png", data="aGk=")
    return tw.ToolResult.ok(text, attachments=(png,) if text == "file" else ())


@tw.tool
async def twice(state: tw.ThreadState) -> str:
    """Call another tool."""
    return str((await state.invoke_tool("echo", {"text": "inner"})).result)


def agent(*turns: object) -> tw.App:
    poet = tw.Prompt(
        "poet",
        "Write.",
        model=ScriptedModel([{"text": "A poem."}]),
        expose_as_tool=True,
        tool_description="Writes.",
    )
    model = ScriptedModel([*turns])
    return tw.App(agents=[tw.Agent("agent", model=model, tools=[echo, twice, "poet"])], prompts=[poet])


async def events_of(rt: Runtime, text: str = "Go.", *, late: bool = False) -> list[tw.RunEvent]:
    run = await send_to(rt, "agent", text)
    if late:
        await rt.runs.wait(run.id, 20)
    async with aclosing(rt.runs.stream(run.id)) as events:
        return [event async for event in events]


def told(events: list[tw.RunEvent]) -> str:
    return "".join([each.text for each in events if isinstance(each, tw.TextDelta)])


class Interrupted:
    """A model whose first attempt breaks off after these pieces; a delta is published before it goes on."""

    name = "test:interrupted"

    def __init__(self, *pieces: str, whole: str, streams: bool = True) -> None:
        self._pieces, self._whole, self._streams = pieces, whole, streams
        self.read = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for piece in self._pieces:
            yield TextDelta(piece)
        await self.read.wait()
        yield AttemptStarted(number=2)
        if self._streams:
            yield TextDelta(self._whole)
        yield ModelResponse(text=self._whole)


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_that_broke_off_begins_again_after_a_reset(streams: bool) -> None:
    model = Interrupted("The first ", "half", whole="The whole answer.", streams=streams)
    events: list[tw.RunEvent] = []
    text = ""
    async with tw.stream(tw.Agent("agent", instructions="", model=model), "Go.") as stream:
        async for event in stream:
            events.append(event)
            match event:
                case tw.TextDelta(text=part):
                    text += part
                    model.read.set()
                case tw.TextReset():
                    text = ""
                case _:
                    pass
    assert text == "The whole answer."
    assert told(events) == "The first halfThe whole answer."
    assert [type(each) for each in events].count(tw.TextReset) == 1


class Bursts:
    """A model whose answer arrives in these pieces, each after a delta of the one before was published."""

    name = "test:bursts"

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces
        self.read = asyncio.Event()

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        for piece in self._pieces:
            yield TextDelta(piece)
            await self.read.wait()
            self.read.clear()
        yield ModelResponse(text="".join(self._pieces))


async def test_a_burst_that_is_longer_than_a_delta_leaves_no_gap() -> None:
    model = Bursts(LONG, "The end.")
    text = ""
    async with tw.stream(tw.Agent("agent", instructions="", model=model), "Go.") as stream:
        async for event in stream:
            assert not isinstance(event, tw.TextReset)
            if isinstance(event, tw.TextDelta):
                text += event.text
                model.read.set()
    assert text == LONG + "The end."


@pytest.mark.parametrize("late", [False, True], ids=["live", "afterwards"])
async def test_long_answers_arguments_and_results_come_whole(late: bool) -> None:
    async with runtime(agent(call("echo", text=LONG), {"text": LONG})) as rt:
        events = await events_of(rt, late=late)
    assert told(events) == LONG
    [started] = [each for each in events if isinstance(each, tw.CallStarted)]
    [done] = [each for each in events if isinstance(each, tw.CallDone)]
    assert (started.name, started.arguments) == ("echo", {"text": LONG})
    assert (done.call_id, done.name, done.result) == (started.call_id, "echo", tw.ToolResult.ok(LONG))
    [last] = [each for each in events if isinstance(each, tw.RunDone)]
    assert events[-1] is last
    assert last.result.output == LONG


async def test_files_errors_and_progress_of_calls() -> None:
    turns = call("echo", text="file"), call("echo", text=3), call("nobody"), {"text": "Done."}
    async with runtime(agent(*turns)) as rt:
        events = await events_of(rt)
    first, second, third = [each for each in events if isinstance(each, tw.CallDone)]
    assert [each.name for each in first.result.attachments] == ["a.png"]
    assert second.result.error_code == "invalid_arguments"
    assert third.result.error_code == "unknown_tool"
    started = [each.call_id for each in events if isinstance(each, tw.CallStarted)]
    assert started == [first.call_id, second.call_id, third.call_id], "each began before it was done"
    assert tw.CallProgress(first.call_id, 1, 2, "half") in events


async def test_what_prompt_tools_say_is_not_the_agents_text_and_their_calls_are_reported() -> None:
    async with runtime(agent(call("poet", message="Write."), call("twice"), {"text": "Done."})) as rt:
        events = await events_of(rt)
    assert told(events) == "Done."
    names = [each.name for each in events if isinstance(each, tw.CallStarted)]
    assert names == ["poet", "twice", "echo"]
    [result] = [each.result for each in events if isinstance(each, tw.RunDone)]
    assert [each.tool for each in result.calls] == ["poet", "twice"]
    assert [each.content for each in result.messages if each.role == "assistant"] == ["", "", "Done."]


async def test_a_thread_is_followed_over_its_runs() -> None:
    async with runtime(agent({"text": "First."})) as rt:
        thread = await rt.threads.create("agent")
        for _ in range(2):
            await rt.runs.wait((await rt.threads.send(thread.id, "Go.")).id, 20)
        events: list[tw.RunEvent] = []
        async with aclosing(rt.threads.stream(thread.id, after=0)) as following:
            async for event in following:
                events.append(event)
                if len([each for each in events if isinstance(each, tw.RunDone)]) == 2:
                    break
    assert told(events) == "First.First."


async def test_a_run_that_is_not_there_cannot_be_followed() -> None:
    async with runtime(agent({"text": "First."})) as rt:
        with pytest.raises(NotFound, match="There is no run 'run_none'"):
            await anext(rt.runs.stream("run_none"))
        with pytest.raises(NotFound, match="There is no thread 'thr_none'"):
            await anext(rt.threads.stream("thr_none"))
        with pytest.raises(NotFound):
            await rt.runs.result("run_none")


async def test_the_result_of_a_run_that_goes_on_is_what_there_is_so_far() -> None:
    outside = tw.Tool.from_config(
        {
            "name": "book",
            "description": "Book.",
            "inputSchema": {"type": "object"},
            "executionType": "external",
        }
    )
    model = ScriptedModel([call("book"), {"text": "Booked."}])
    app = tw.App(agents=[tw.Agent("agent", model=model, tools=[outside])])
    async with runtime(app) as rt:
        run = await send_to(rt, "agent", "Go.")
        async with aclosing(rt.runs.stream(run.id)) as events:
            async for event in events:
                if isinstance(event, tw.CallWaiting):
                    break
        result = await rt.runs.result(run.id)
    assert (result.status, result.over, result.output) == ("waiting", False, None)
    assert [(each.tool, each.result) for each in result.calls] == [("book", None)]
