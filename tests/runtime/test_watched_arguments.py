"""Arguments that JSON cannot represent: the model reads the error, with or without followers; calls never started."""

import asyncio
from contextlib import suppress

import pytest

import toolwright as tw
from tests.kit import Watched, call, calls
from tests.runtime.talk import talking
from toolwright.core.threads.event import Topic
from toolwright.wire.text import partial_json

pytestmark = pytest.mark.anyio


@tw.tool(description="Add.", name="add", read_only=True)
async def add_(a: float) -> float:
    return a + 1


@pytest.mark.parametrize("arguments", ['{"a":1e999}', '{"a":NaN}', '{"x":[[{"y":-1e400}]]}'])
async def test_a_run_ends_alike_with_and_without_followers(arguments: str) -> None:
    turns = [{"calls": [{"name": "add", "args": arguments}]}, {"text": "Done."}]
    app = tw.App(agents=[tw.Agent("boss", tw.Prompt("main", tools=[add_], model=Watched(turns)))])
    async with talking(app, "boss") as talk:
        async with talk.rt.events.following(Topic(kind="thread", id=talk.thread_id)):
            run = await talk.say()
        [result] = await talk.results()
        assert (run.status, run.output) == ("completed", "Done.")
        assert "Invalid arguments" in result


@pytest.mark.parametrize("arguments", ['{"a":1e999', '{"a":NaN}', '{"a":[-1e400]}', '{"a":"\ud800"}'])
def test_what_json_cannot_carry_is_shown_as_nothing(arguments: str) -> None:
    assert partial_json(arguments) is None


async def test_a_call_that_was_not_begun_before_the_run_was_cancelled_says_so() -> None:
    begun = asyncio.Event()
    paid: list[str] = []

    @tw.tool(description="Slow.", name="slow", timeout=0.2)
    async def slow_() -> str:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "late"

    @tw.tool(description="Pay.", name="pay")
    async def pay_() -> str:
        paid.append("paid")
        return "paid"

    model = Watched([calls(call("slow"), call("pay")), {"text": "Done."}])
    app = tw.App(agents=[tw.Agent("boss", tw.Prompt("main", tools=[slow_, pay_], model=model))])
    async with talking(app, "boss") as talk:
        sent = await talk.rt.threads.send(talk.thread_id, "Go")
        await begun.wait()
        await talk.rt.runs.cancel(sent.id)
        run = await talk.rt.runs.wait(sent.id, 10)
        results = await talk.results()
    assert (run.status, paid) == ("cancelled", [])
    assert results[1] == '{"error":"Run cancelled before this call began.","error_code":"not_begun"}'
