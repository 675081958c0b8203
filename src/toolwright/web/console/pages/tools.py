"""Pages of tools: the list, and the tools of the app and of agents."""

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from toolwright.core.agents.agent import Agent
from toolwright.core.text import brief
from toolwright.core.tools.tool import Tool
from toolwright.core.value import Value
from toolwright.web.console.browsing import Listing, check_service, folded
from toolwright.web.console.tools import (
    MAX_DESCRIPTION,
    ToolTester,
    find_tool,
    hints,
    parameter_table,
    path_of,
)
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, heading, link, nothing, plain_text, prose

MAX_AGENTS: Final = 1_000  # agents whose tools are listed


async def draw_app_tool(visit: Visit, name: str) -> None:
    """Render the page of an app's tool."""
    check_service(visit)
    _draw(visit, await find_tool(visit, visit.query.get("name", name), None), None)


async def draw_agent_tool(visit: Visit, agent_id: str, name: str) -> None:
    """Render the page of an agent's tool."""
    check_service(visit)
    agent = await visit.runtime.agents.get(agent_id)
    tool = await find_tool(visit, visit.query.get("name", name), agent.id)
    with box("p", "small under"):
        link(agent.name, f"/agents/{agent.id}")
    _draw(visit, tool, agent.id)


def _draw(visit: Visit, tool: Tool, agent_id: str | None) -> None:
    with box("div", "head"):
        heading(tool.name)
        hints(tool)
    prose(tool.description)
    with box("section", "section stack"):
        plain_text("Parameters", "h2")
        parameter_table(tool.offered)
        folded(visit, "Schema as JSON", tool.offered)
    _needs(tool)
    if tool.latent:
        plain_text("The model's provider executes this tool. It cannot be called here.", "p", "note section")
    else:
        ToolTester(visit, tool, agent_id).draw()


def _needs(tool: Tool) -> None:
    if tool.variables:
        with box("section", "section stack"):
            plain_text("Variables", "h2")
            with box("dl", "facts card"):
                for each in tool.variables:
                    with box("dt"), box("span", "row"):
                        plain_text(each.name, "span", "mono")
                        if each.type == "secret":
                            badge("secret")
                        if each.required:
                            badge("required")
                    plain_text(each.description or "–", "dd")
    if tool.tenvs is not None:
        with box("section", "section stack"):
            plain_text("Tenvs", "h2")
            plain_text("Variables that the thread must provide.", "p", "quiet small")
            parameter_table(tool.tenvs.model_json_schema())


async def draw_list(visit: Visit) -> None:
    """Render all tools, by owner, with a filter."""
    check_service(visit)
    await _Tools(visit).draw()


class _ToolRow(Value, gc=True):
    tool: Tool
    agent: Agent | None
    begins: bool = False  # per group


class _Tools:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._filter = ""
        self._rows: Sequence[tuple[Tool, Agent | None]] = []

    async def draw(self) -> None:
        with box("div", "head"):
            heading("Tools")
        self._rows = await self._all()
        field = ui.input("Filter", on_change=lambda event: self._narrow(event.value))
        field.props("outlined dense clearable debounce=200").classes("search")
        field.props["data-focus"] = True
        self._list = Listing(self._visit, self._read, _show, empty=self._none)
        await self._list.show()

    async def _all(self) -> Sequence[tuple[Tool, Agent | None]]:
        runtime = self._visit.runtime
        rows: list[tuple[Tool, Agent | None]] = [(tool, None) for tool in runtime.tools]
        app_names = {tool.name for tool in runtime.tools}
        for each in await runtime.agents.list(MAX_AGENTS):
            active = await runtime.agents.usable(each.id)
            sides = () if active is None else tuple(active.sides.values())
            agent_tools = {
                tool.name: tool for side in sides for tool in side.tools if tool.name not in app_names
            }
            rows += [(tool, each) for tool in agent_tools.values()]
        return rows

    async def _read(self, limit: int, offset: int) -> Sequence[_ToolRow]:
        fitting = [
            each for each in self._rows if self._filter in f"{each[0].name} {each[0].description}".casefold()
        ]
        page = fitting[offset : offset + limit]
        return [
            _ToolRow(tool=tool, agent=agent, begins=n == 0 or page[n - 1][1] is not agent)
            for n, (tool, agent) in enumerate(page)
        ]

    async def _narrow(self, text: str | None) -> None:
        self._filter = (text or "").strip().casefold()
        await self._visit.act(self._list.show(0))

    def _none(self) -> None:
        if self._filter:
            nothing("No matching tools", "The filter searches names and descriptions.")
        else:
            nothing("No tools yet", "Declare one in the app: tw.App(tools=[…]).")


def _show(row: _ToolRow) -> None:
    agent = row.agent
    if row.begins:
        with box("li", "item group"):
            if agent is None:
                plain_text("The app's", "h2")
            else:
                link(agent.name, f"/agents/{agent.id}")
    with box("li", "item"), box("div", "fill"):
        with box("div", "row"):
            link(row.tool.name, path_of(row.tool.name, None if agent is None else agent.id), "title mono")
            hints(row.tool)
        plain_text(brief(row.tool.description, MAX_DESCRIPTION), "p", "quiet small")
