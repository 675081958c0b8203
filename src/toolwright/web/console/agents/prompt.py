"""Prompt of an agent as its model would see it now, in the parts that it is made of."""

from typing import Final

from nicegui import ui

from toolwright.core.agents.agent import Agent
from toolwright.core.errors import NotFound
from toolwright.core.text import brief
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import box, code, nothing, words

MOST_SPACES: Final = 200  # that are offered
_HOME: Final = ""  # no space: where the agent is


class PromptPreview:
    """What an agent would be told: where it is, or as if it were in a space."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id

    async def draw(self) -> None:
        """Draw it, with a choice of spaces."""
        with box("section", "section"):
            words("Prompt", "h2")
            words(
                "What the model would be told now. Parts that change from step to step are sent after the messages.",
                "p",
                "quiet small",
            )
            spaces = await self._spaces() if self._user_id is None else {}
            if spaces:
                choice = {_HOME: "Where the agent is", **spaces}
                select = ui.select(choice, value=_HOME, label="As if it were in", on_change=self._chosen)
                select.props("outlined dense").classes("search")
            self._place = box("div", "section")
            await self._show(None)

    async def _spaces(self) -> dict[str, str]:
        members = await self._visit.runtime.spaces.memberships(self._agent.entity_id)
        names: dict[str, str] = {}
        for member in members[:MOST_SPACES]:
            try:
                space = await self._visit.runtime.spaces.get(member.space_id)
            except NotFound:
                continue
            names[space.id] = brief(space.name or space.id, 80)
        return names

    async def _chosen(self, event: object) -> None:
        await self._visit.act(self._show(getattr(event, "value", _HOME) or None))

    async def _show(self, space_id: str | None) -> None:
        told = await self._visit.runtime.prompts.of(self._agent.id, space_id, self._user_id)
        self._place.clear()
        with self._place:
            words(f"{len(told.prompt)} characters", "p", "quiet small")
            if not told.prompt:
                nothing("It is told nothing")
            for part in told.sections:
                with box("div", "section"):
                    words(f"{part.name}, after the messages" if part.changes else part.name, "h3")
                    code(part.text)
