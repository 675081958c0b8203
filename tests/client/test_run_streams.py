"""Streams of runs as values over HTTP: the same as in the process that executes the runs."""

from contextlib import aclosing

import pytest

import toolwright as tw
from tests.client.rig import client_of, served
from toolwright.core.errors import NotFound
from toolwright.testing import ScriptedModel, runtime

pytestmark = pytest.mark.anyio

LONG = "All work and no play. " * 4_000


@tw.tool
async def echo(state: tw.ThreadState, text: str) -> tw.ToolResult:
    """Say it again."""
    if text == "fail":
        return tw.ToolResult.fail("No.", error_code="no", error_data={"why": LONG})
    png = tw.Attachment(name="a.png", mime_type="image/png", data="aGk=")
    return tw.ToolResult.ok(text, attachments=(png,))


def calling(text: object) -> dict[str, object]:
    return {"calls": [{"name": "echo", "args": {"text": text}}]}


def app(*turns: object) -> tw.App:
    return tw.App(agents=[tw.Agent("agent", model=ScriptedModel([*turns]), tools=[echo])])


TURNS = [calling("hi"), calling(LONG), calling("fail"), calling(3), {"text": LONG}]


async def test_the_events_of_a_run_are_the_same_here_and_there() -> None:
    async with runtime(app(*TURNS)) as rt, served(rt) as port, client_of(port) as client:
        thread = await client.threads.create("agent")
        sent = await client.threads.send(thread.id, "Go.")
        async with aclosing(client.runs.stream(sent.run_id)) as events:
            there = [event async for event in events]
        async with aclosing(rt.runs.stream(sent.run_id)) as events:
            here = [event async for event in events]
        result = await client.runs.result(sent.run_id)
    assert [each for each in there if isinstance(each, tw.CallStarted | tw.CallDone | tw.StepDone)] == [
        each for each in here if isinstance(each, tw.CallStarted | tw.CallDone | tw.StepDone)
    ]
    assert "".join([each.text for each in there if isinstance(each, tw.TextDelta)]) == LONG
    last, ours = there[-1], here[-1]
    assert isinstance(last, tw.RunDone)
    assert isinstance(ours, tw.RunDone)
    assert last.result == result
    assert (result.calls, result.output, result.usage) == (ours.result.calls, LONG, ours.result.usage)
    pairs = [
        (
            each.id,
            each.role,
            each.content,
            [file.path for file in each.attachments],
            [(call.id, call.arguments) for call in each.calls],
        )
        for each in (*result.messages, *ours.result.messages)
    ]
    assert pairs[: len(pairs) // 2] == pairs[len(pairs) // 2 :]


async def test_a_thread_is_followed_over_its_runs_and_a_failure_has_its_code() -> None:
    failing = app({"fail": "refused", "message": "no credit"})
    async with runtime(failing) as rt, served(rt) as port, client_of(port) as client:
        thread = await client.threads.create("agent")
        await client.threads.send(thread.id, "Go.")
        async with aclosing(client.threads.stream(thread.id, after=0)) as events:
            done = await anext(event async for event in events if isinstance(event, tw.RunDone))
        with pytest.raises(NotFound):
            await client.runs.result("run_none")
        with pytest.raises(NotFound):
            await client.calls.get("call_none")
    assert (done.result.status, done.result.error_code) == ("failed", "model_refused")


async def test_messages_are_read_by_their_run_too() -> None:
    async with runtime(app({"text": "First."})) as rt, served(rt) as port, client_of(port) as client:
        thread, other = [await client.threads.create("agent") for _ in range(2)]
        runs = [(await client.threads.send(thread.id, f"Number {n}.")).run_id for n in range(1)]
        await client.runs.wait(runs[0])
        runs.append((await client.threads.send(thread.id, "Number 1.")).run_id)
        await client.runs.wait(runs[1])
        result = await client.runs.result(runs[1])
        with pytest.raises(NotFound, match="There is no run"):
            await rt.threads.messages(other.id, run_id=runs[0])
    assert [each.content for each in result.messages] == ["Number 1.", "First."]
