"""Agents: those that the app declares, and those that are configured as JSON."""

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from toolwright.core.broken_rows import Rows, broken_of, sliced
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import MAX_DESCRIPTION
from toolwright.core.text import brief, quantity
from toolwright.core.value import value
from toolwright.runtime.agents.agents import Shown
from toolwright.runtime.agents.configured import LONGEST_NAME
from toolwright.web.console.agents.configuration import model_name
from toolwright.web.console.agents.stored import check_allowed
from toolwright.web.console.browsing import Listing, check_service
from toolwright.web.console.dialogs import fill_in
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, heading, link, nothing, words

MOST: Final = 1_000  # agents among which the filter looks
_NEW: JSONObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": LONGEST_NAME},
        "description": {"type": "string", "title": "Description", "maxLength": MAX_DESCRIPTION},
        "config": {
            "type": "object",
            "title": "Configuration",
            "default": {"agent": {"system": "You help."}, "tools": []},
        },
    },
    "required": ["name", "config"],
}


async def draw_list(visit: Visit) -> None:
    """All agents, with a filter."""
    check_service(visit)
    await _Agents(visit).draw()


@value
class _Row:
    shown: Shown
    model: str = ""
    tools: int = 0
    fits: bool = True


class _Agents:
    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._filter = ""

    async def draw(self) -> None:
        with box("div", "head"):
            heading("Agents")
            box("span", "fill")
            action("New agent", self._new, icon="add")
        field = ui.input("Filter", on_change=lambda event: self._narrow(event.value))
        field.props("outlined dense clearable debounce=200").classes("search")
        field.props["data-focus"] = True
        self._list = Listing(self._visit, self._read, _show, empty=self._none)
        await self._list.show()

    async def _read(self, limit: int, offset: int) -> Sequence[_Row]:
        if not self._filter:
            return await self._rows(await self._visit.runtime.agents.show_all(limit, offset))
        every = await self._visit.runtime.agents.show_all(MOST)
        fitting = [
            each for each in every if self._filter in f"{each.agent.name} {each.agent.description}".casefold()
        ]
        return await self._rows(sliced(Rows(fitting, broken_of(every)), limit, offset))

    async def _rows(self, agents: Sequence[Shown]) -> Sequence[_Row]:
        return Rows([await self._row(each) for each in agents], broken_of(agents))

    async def _row(self, shown: Shown) -> _Row:
        active = await self._visit.runtime.agents.usable(shown.agent.id)
        if active is None:
            return _Row(shown=shown, fits=False)
        names = {tool.name for side in active.sides.values() for tool in side.tools}
        return _Row(shown=shown, model=model_name(active.model), tools=len(names))

    async def _narrow(self, text: str | None) -> None:
        self._filter = (text or "").strip().casefold()
        await self._visit.act(self._list.show(0))

    def _none(self) -> None:
        if self._filter:
            nothing("No agent of that name", "The filter looks at names and descriptions.")
        else:
            nothing("No agents yet", "Declare one in the app, tw.App(agents=[…]), or configure one here.")

    def _new(self) -> None:
        async def take(entered: JSONObject) -> None:
            config = entered["config"]
            check_allowed(self._visit, config)
            name, description = str(entered["name"]), str(entered.get("description") or "")
            saved = await self._visit.runtime.agents.save(name, config, description)
            ui.navigate.to(f"/agents/{saved.agent.id}")

        hint = "An agent of the same name that is configured so already is configured anew."
        fill_in(self._visit, "New agent", _NEW, take, done="The agent is there.", hint=hint)


def _show(row: _Row) -> None:
    agent = row.shown.agent
    with box("li", "item"), box("div", "fill"):
        with box("div", "row"):
            link(agent.name, f"/agents/{agent.id}", "title")
            badge("in the app's code" if row.shown.config is None else "configured")
            if not row.fits:
                badge("cannot run", "bad")
        if agent.description:
            words(brief(agent.description, 240), "p", "quiet small")
        if row.fits:
            told = [row.model, quantity(row.tools, "tool"), *agent.toolkits]
            words(brief(" · ".join(told), 240), "p", "quiet small")
