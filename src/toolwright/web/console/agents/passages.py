"""Archival passages of an agent: searched, added, taken away."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from nicegui import ui

from toolwright.core.agents.agent import Agent
from toolwright.core.agents.memory import LONGEST_TAG, MOST_TAGS, Passage
from toolwright.core.agents.search import LONGEST_QUERY
from toolwright.core.json_value import JSONObject
from toolwright.web.console.browsing import Listing
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, icon_action, nothing, prose, when, words

_PASSAGE: JSONObject = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "title": "Content"},
        "tags": {
            "type": "array",
            "title": "Tags",
            "items": {"type": "string", "maxLength": LONGEST_TAG},
            "maxItems": MOST_TAGS,
        },
    },
    "required": ["content"],
}


class Passages:
    """The archive of an agent, the newest first, or what a search finds in it."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id
        self._passages = visit.runtime.passages
        self._query = ""

    async def draw(self) -> None:
        """Draw it with its search."""
        with box("section", "section"):
            with box("div", "head"):
                words("Passages", "h2")
                box("span", "fill")
                action("New passage", self._new, icon="add")
            search = ui.input("Search passages", on_change=lambda event: self._look_for(event.value))
            search.props("outlined dense clearable debounce=300").classes("search")
            search.props["data-focus"] = True
            self._list = Listing(self._visit, self._read, self._show, empty=self._none)
            await self._list.show()

    async def _read(self, limit: int, offset: int) -> Sequence[Passage]:
        if not self._query:
            return await self._passages.list(self._agent.id, limit, offset, user_id=self._user_id)
        return await self._passages.search(self._agent.id, self._query, limit, offset, user_id=self._user_id)

    async def _look_for(self, query: str | None) -> None:
        self._query = (query or "").strip()[:LONGEST_QUERY]
        await self._visit.act(self._list.show(0))

    def _show(self, passage: Passage) -> None:
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                for tag in passage.tags:
                    badge(tag)
                when(passage.created_at, "quiet small")
                box("span", "fill")
                icon_action("delete", "Delete this passage", partial(self._delete, passage))
            prose(passage.content)

    def _none(self) -> None:
        if self._query:
            nothing("Nothing found", "A passage is found by all words of the search.")
        else:
            nothing("No passages yet", "The agent stores them, or you do.")

    def _new(self) -> None:
        async def take(entered: JSONObject) -> None:
            tags = cast("list[str]", entered.get("tags") or [])  # by the schema
            await self._passages.add(self._agent.id, str(entered["content"]), tags, user_id=self._user_id)
            await self._list.show(0)

        fill_in(self._visit, "New passage", _PASSAGE, take)

    def _delete(self, passage: Passage) -> None:
        async def go() -> None:
            await self._passages.drop(self._agent.id, passage.id, user_id=self._user_id)
            await self._list.show()

        confirm(self._visit, "Delete this passage?", "Delete", go, done="Deleted.")
