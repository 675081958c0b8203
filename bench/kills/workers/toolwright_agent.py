"""Toolwright: the embedded runtime with its default settings."""

import asyncio
import json
from collections.abc import Mapping

import toolwright as tw
from bench.kills.work import next_calls, work
from toolwright.testing import FunctionModel

WORK = work()


@tw.tool
async def effect(call: str) -> str:
    """Make an effect."""
    return await WORK.effect(call)


def answer(messages: tuple[tw.Message, ...]) -> object:
    """Return the canned model's next answer."""
    answers = sum(1 for each in messages if each.calls)
    calls = next_calls(messages[0].content, answers)
    return (
        {"calls": [{"name": "effect", "args": {"call": call}} for call in calls]}
        if calls
        else {"text": "Done."}
    )


async def handle(rt: tw.Runtime, message: str, again: bool) -> Mapping[str, str]:
    """Send the message, unless an earlier process has sent it, and wait for its run.

    The runtime itself continues the runs of an earlier process. Each message belongs to a user of its own, by which its
    thread is found again.
    """
    threads = await rt.threads.list(user_id=message) if again else ()
    thread = threads[0] if threads else await rt.threads.create("clerk", user_id=message)
    runs = await rt.runs.list(thread_id=thread.id)
    run = await rt.runs.wait((runs[0] if runs else await rt.threads.send(thread.id, message)).id)
    if run.status != "completed":
        raise RuntimeError(f"The run has {run.status}: {run.error}")
    sent = await rt.threads.messages(thread.id)
    calls = {call.id: json.loads(call.arguments)["call"] for each in sent for call in each.calls}
    return {calls[each.call_id]: each.content for each in sent if each.call_id in calls}


async def main() -> None:
    """Process messages until the driver stops it."""
    app = tw.App(agents=[tw.Agent("clerk", model=FunctionModel(answer), tools=[effect])])
    async with app.runtime(tw.Settings(database_url=WORK.database)) as rt:
        await WORK.run(lambda message, again: handle(rt, message, again))


asyncio.run(main())
