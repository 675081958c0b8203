"""A served app with data of every kind: rooms, pending calls, runs, threads with children."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import toolwright as tw
from tests.browser.console.rig import House, house
from tests.kit import send_to
from toolwright.core.agents.mind import GoalChange
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

CONFIRM = {
    "name": "confirmAction",
    "description": "Ask people to confirm an action.",
    "inputSchema": {
        "type": "object",
        "properties": {"question": {"type": "string"}},
        "required": ["question"],
    },
    "executionType": "space",
    "isAsync": True,
}
CHART = {
    "name": "showChart",
    "description": "Show a chart to people.",
    "inputSchema": {
        "type": "object",
        "properties": {"type": {"type": "string"}, "series": {"type": "array"}},
    },
    "executionType": "internal",
    "visible": True,
}
PRICES = {
    "type": "bar",
    "title": "A night in Tokyo, EUR",
    "labels": ["Sakura", "Tsubaki", "Momiji", "Yuzu"],
    "series": [
        {"name": "Weekdays", "data": [120, 145, 98, 180]},
        {"name": "Weekend", "data": [150, 170, 130, 220]},
    ],
}


@tw.tool(read_only=True)
async def find_hotels(city: str, nights: int = 1) -> list[dict[str, str | int]]:
    """Hotels with a free room in a city.

    Args:
        city: Where.
        nights: For how long.
    """
    return [{"hotel": "Sakura", "price": 120 * nights}, {"hotel": "Tsubaki", "price": 145 * nights}]


@tw.tool
async def book(hotel: str) -> str:
    """Book a room."""
    raise ValueError(f"The {hotel} does not answer.")


def calls(*named: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """Return a script turn that makes those calls."""
    return {"text": text, "calls": [{"name": name, "args": args} for name, args in named]}


def _app() -> tw.App:
    host = ScriptedModel(
        [
            {"when": '"confirmed"', "text": "It is booked."},
            calls(("enter_space", {"spaceId": "trip"})),
            calls(
                ("find_hotels", {"city": "Tokyo", "nights": 2}),
                ("showChart", PRICES),
                ("send_message", {"text": "The Sakura is nearest to the station, and has a room."}),
                ("confirmAction", {"question": "Book two nights at the Sakura for 240 EUR?"}),
            ),
            {"text": "I have asked."},
        ]
    )
    guide = ScriptedModel(
        [
            calls(("find_hotels", {"city": "Kyoto"}), ("scout", {"message": "Which hotel is quiet?"})),
            calls(("book", {"hotel": "Tsubaki"}), text="The scout says that the Tsubaki is quiet."),
            {"text": "The Tsubaki does not answer. I shall try again tomorrow."},
        ]
    )
    scout = tw.Agent(
        "scout",
        tw.Prompt("scout", "You look around.", model=ScriptedModel([{"text": "The Tsubaki is quiet."}])),
        expose_as_tool=True,
        tool_description="Have a scout look around.",
    )
    tools = [find_hotels, tw.Tool.from_config(CHART), tw.Tool.from_config(CONFIRM)]
    agents = [
        tw.Agent(
            "host",
            tw.Prompt("host", "You book hotels.", model=host, tools=tools),
            toolkits=["spaces", "mind"],
        ),
        tw.Agent(
            "guide",
            tw.Prompt(
                "guide",
                "You plan trips.",
                model=guide,
                tools=[find_hotels, book, tw.SubagentToolConfig(name="scout")],
            ),
        ),
        scout,
    ]
    return tw.App(agents=agents, tools=[find_hotels, book])


@asynccontextmanager
async def town() -> AsyncGenerator[House]:
    """An agent `host` in the space `trip` with Ada and Bob, who asked it for a hotel; and a thread of `guide`."""
    async with house(_app()) as made:
        people = [await made.person(name) for name in ("ada", "bob")]
        await made.rt.spaces.create(
            "Trip to Tokyo", id="trip", description="Where we plan it", members=people
        )
        await made.rt.spaces.create("News", id="news", kind="public", members=people)
        await _fill(made.rt, people)
        yield made


async def _fill(rt: Runtime, people: list[str]) -> None:
    ada, bob = people
    await rt.spaces.say("news", bob, "The office is closed on Monday.")
    hello = await rt.spaces.say("trip", bob, "I have found flights for the 12th, back on the 14th.")
    await rt.spaces.add_member("trip", "host")
    await rt.spaces.react(hello.message.id, ada, "🎉")
    asked = await rt.spaces.say(
        "trip", ada, "Great! Can you find us a hotel, please?", None, hello.message.id
    )
    for run_id in asked.runs.values():
        await rt.runs.wait(run_id, 20)
    await rt.minds.set_goals("host", [GoalChange(description="Find a hotel near the station")])
    await rt.blocks.write("host", "travellers", "Ada likes it quiet; Bob wants breakfast.")
    await rt.passages.add("host", "The Sakura is five minutes from the station.", ["hotels"])
    run = await send_to(rt, "guide", "A quiet hotel in Kyoto, please.", user_id=ada, tags=["kyoto"])
    await rt.runs.wait(run.id, 20)
