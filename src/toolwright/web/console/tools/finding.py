"""Tools by name: those of the app, and those that an agent has beside them."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from toolwright.core.errors import DefinitionError, NotFound, TenvsLacking
from toolwright.core.text import brief
from toolwright.core.tools.tool import Tool
from toolwright.core.tools.toolset import Toolset
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, link, words

_PLAIN: Final = re.compile("[A-Za-z0-9_.-]+")
LONGEST_DESCRIPTION: Final = 240  # characters of it in a list


async def tools_of(visit: Visit, agent_id: str) -> Toolset:
    """All tools of an agent: its own, its toolkits', and those of MCP servers, which are waited for."""
    try:
        return (await visit.runtime.toolkit(agent_id)).tools
    except TenvsLacking:  # it has threads that bring them, and none of its own
        return (await visit.runtime.agents.active(agent_id)).tools


async def find_tool(visit: Visit, name: str, agent_id: str | None) -> Tool:
    """The tool of that name, of the app or of an agent; else `NotFound`."""
    tools = _of_app(visit, name) if agent_id is None else await tools_of(visit, agent_id)
    if name not in tools:
        raise NotFound(f"There is no tool {brief(repr(name), 200)}.")
    return tools[name]


def _of_app(visit: Visit, name: str) -> Toolset:
    """What hosts outside may call, where the tool is among it: there are those of single agents too."""
    try:
        tools = visit.runtime.app_calls.tools
    except DefinitionError:  # which a call of it would say
        return visit.runtime.tools
    return tools if name in tools else visit.runtime.tools


def path_of(name: str, agent_id: str | None = None) -> str:
    """The path of a tool's page. A name that a path would not carry as it is stands in the query."""
    place = "/tools" if agent_id is None else f"/tools/{quote(agent_id, safe='')}"
    return f"{place}/{name}" if _PLAIN.fullmatch(name) else f"{place}/-?name={quote(name, safe='')}"


def tool_list(tools: Sequence[Tool], agent_id: str | None = None) -> None:
    """A list of tools, each leading to its page."""
    with box("ul", "list"):
        for tool in tools:
            with box("li", "item"), box("div", "fill"):
                with box("div", "row"):
                    link(tool.name, path_of(tool.name, agent_id), "title mono")
                    hints(tool)
                words(brief(tool.description, LONGEST_DESCRIPTION), "p", "quiet small")


def hints(tool: Tool) -> None:
    """What a tool is and what its calls do, in badges."""
    badge(tool.kind)
    for shown, name, kind in (
        (tool.read_only, "read only", "good"),
        (tool.destructive, "destructive", "bad"),
        (tool.visible, "visible", "busy"),
        (tool.is_async, "async", ""),
        (tool.approval is not None, "needs approval", "waiting"),
    ):
        if shown:
            badge(name, kind)
