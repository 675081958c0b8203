"""A served app in which something of everything has happened: spaces, calls that wait, runs, threads with children."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import toolwright as tw
from tests.browser.console.rig import House, house
from toolwright.testing import ScriptedModel

CONFIRM = {
    "name": "confirmAction",
    "description": "Ask people to confirm an action.",
    "inputSchema": {"type": "object", "properties": {"question": {"type": "string"}}},
    "executionType": "space",
    "isAsync": True,
}


@asynccontextmanager
async def town() -> AsyncGenerator[House]:
    """An agent `host` in the space `trip` with Ada and Bob, who have asked it for a hotel."""
    enter = {"name": "enter_space", "args": {"spaceId": "trip"}}
    say = {"name": "send_message", "args": {"text": "It is clear in Tokyo.\n```\nprint('hello')\n```"}}
    ask = {"name": "confirmAction", "args": {"question": "Book one night at the Sakura?"}}
    model = ScriptedModel([{"when": "hotel", "calls": [enter, say, ask]}, {"text": "Done."}])
    prompt = tw.Prompt("host", "You book hotels.", model=model, tools=[tw.Tool.from_config(CONFIRM)])
    agent = tw.Agent("host", prompt, toolkits=["spaces"])
    async with house(tw.App(agents=[agent])) as made:
        people = [await made.person(name) for name in ("ada", "bob")]
        await made.rt.spaces.create(
            "Trip to Tokyo", id="trip", description="Where we plan it.", members=[*people, agent.id]
        )
        first = await made.rt.spaces.say("trip", people[0], "A hotel in Tokyo, please.")
        for run_id in first.runs.values():
            await made.rt.runs.wait(run_id, 20)
        await made.rt.spaces.react(first.message.id, people[1], "🎉")
        yield made
