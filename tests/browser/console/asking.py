"""A space of Ada, Bob and an agent, whose pending calls are shown on a page of the console."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Locator, Page

import toolwright as tw
from tests.browser.console.rig import House, house
from toolwright.core.tools.tool_ui import ToolUI
from toolwright.testing import ScriptedModel

ANYTHING = {"type": "object"}


def asking(name: str, schema: dict[str, Any] = ANYTHING) -> tw.Tool:
    """Return a visible tool whose calls people answer while its agent continues."""
    return tw.Tool.from_config(
        {
            "name": name,
            "description": "Asks.",
            "inputSchema": schema,
            "executionType": "space",
            "isAsync": True,
        }
    )


def calls(*made: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the turn in which an agent enters the space and makes these calls."""
    entered = {"name": "enter_space", "args": {"spaceId": "trip"}}
    return {"when": "Go", "calls": [entered, *({"name": name, "args": args} for name, args in made)]}


@asynccontextmanager
async def asked(
    *made: tuple[str, dict[str, Any]],
    tools: Sequence[tw.Tool] | None = None,
    tool_uis: Sequence[ToolUI] = (),
    **fields: Any,
) -> AsyncGenerator[House]:
    """Wait until the agent has made these calls of visible tools and they are pending."""
    if tools is None:
        tools = [asking(name) for name in dict.fromkeys(name for name, _ in made)]
    model = ScriptedModel([calls(*made), {"text": "That is all."}])
    agent = tw.Agent(
        "guide", instructions="Guide.", model=model, tools=[*tools], toolkits=["spaces", "mind"], **fields
    )
    async with house(tw.App(agents=[agent]), tool_uis=tool_uis) as opened:
        people = [await opened.person(name) for name in ("ada", "bob")]
        await opened.rt.spaces.create("Trip to Tokyo", id="trip", members=[*people, agent.id])
        await opened.rt.spaces.say("trip", people[0], "Go")
        yield opened


def card(page: Page, name: str) -> Locator:
    """Return the card of the call of that tool."""
    return page.locator(".call").filter(has=page.get_by_role("heading", name=name, exact=True))
