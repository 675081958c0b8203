"""Tools: those of the app, and those that single agents have beside them."""

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from toolwright.core.agents.agent import Agent
from toolwright.core.text import brief
from toolwright.core.tools.tool import Tool
from toolwright.core.value import value
from toolwright.web.console.browsing import Listing, check_service
from toolwright.web.console.tools.finding import LONGEST_DESCRIPTION, hints, path_of
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, heading, link, nothing, words

MOST_AGENTS: Final = 1_000  # whose tools are listed


async def draw_list(visit: Visit) -> None:
    """All tools, by whose they are, with a filter."""
    check_service(visit)
    await _Tools(visit).draw()


@value
class _Row:
    tool: Tool
    agent: Agent | None
    begins: bool = False  # a group


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
        named = {tool.name for tool in runtime.tools}
        for each in await runtime.agents.list(MOST_AGENTS):
            active = await runtime.agents.usable(each.id)
            sides = () if active is None else tuple(active.sides.values())
            own = {tool.name: tool for side in sides for tool in side.tools if tool.name not in named}
            rows += [(tool, each) for tool in own.values()]
        return rows

    async def _read(self, limit: int, offset: int) -> Sequence[_Row]:
        fitting = [
            each for each in self._rows if self._filter in f"{each[0].name} {each[0].description}".casefold()
        ]
        page = fitting[offset : offset + limit]
        return [
            _Row(tool=tool, agent=agent, begins=n == 0 or page[n - 1][1] is not agent)
            for n, (tool, agent) in enumerate(page)
        ]

    async def _narrow(self, text: str | None) -> None:
        self._filter = (text or "").strip().casefold()
        await self._visit.act(self._list.show(0))

    def _none(self) -> None:
        if self._filter:
            nothing("No tool of that name", "The filter looks at names and descriptions.")
        else:
            nothing("No tools yet", "Declare one in the app: tw.App(tools=[…]).")


def _show(row: _Row) -> None:
    agent = row.agent
    if row.begins:
        with box("li", "item group"):
            if agent is None:
                words("The app's", "h2")
            else:
                link(agent.name, f"/agents/{agent.id}")
    with box("li", "item"), box("div", "fill"):
        with box("div", "row"):
            link(row.tool.name, path_of(row.tool.name, None if agent is None else agent.id), "title mono")
            hints(row.tool)
        words(brief(row.tool.description, LONGEST_DESCRIPTION), "p", "quiet small")
