"""The memory of an agent: blocks and passages."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from nicegui import ui

from toolwright.core.agents.agent import Agent, agent_of_keeper
from toolwright.core.agents.memory import LONGEST_LABEL, LONGEST_QUERY, LONGEST_TAG, MOST_TAGS, Block, Passage
from toolwright.core.json_value import JSONObject
from toolwright.core.text import brief
from toolwright.web.console.browsing import Listing
from toolwright.web.console.dialogs import confirm, fill_in
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, icon_action, link, nothing, prose, when, words

_CONTENT: JSONObject = {"type": "string", "title": "Content"}
_BLOCK: JSONObject = {"type": "object", "properties": {"content": _CONTENT}, "required": ["content"]}
_NEW_BLOCK: JSONObject = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "title": "Label", "minLength": 1, "maxLength": LONGEST_LABEL},
        "content": _CONTENT,
    },
    "required": ["label", "content"],
}
_READER: JSONObject = {
    "type": "object",
    "properties": {"reader": {"type": "string", "title": "Agent, by name or id", "minLength": 1}},
    "required": ["reader"],
}


class Blocks:
    """The blocks that an agent reads, its own to be changed."""

    def __init__(self, visit: Visit, agent: Agent, user_id: str | None = None) -> None:
        self._visit = visit
        self._agent = agent
        self._user_id = user_id
        self._blocks = visit.runtime.blocks

    async def draw(self) -> None:
        """Draw them."""
        with box("section", "section"):
            with box("div", "head"):
                words("Blocks", "h2")
                box("span", "fill")
                action("New block", self._new, icon="add")
            read = partial(self._blocks.list, self._agent.id, user_id=self._user_id)
            self._list = Listing(self._visit, read, self._show, empty=_no_blocks)
            await self._list.show()

    def _show(self, block: Block) -> None:
        own = agent_of_keeper(block.agent_id) == self._agent.id
        with box("li", "item"), box("div", "fill stack"):
            with box("div", "row"):
                words(block.label, "span", "title")
                if not own:
                    badge("another agent's")
                elif block.is_shared:
                    badge("shared", "busy")
                when(block.updated_at, "quiet small")
                box("span", "fill")
                if own:
                    self._buttons(block)
                else:
                    link("Its owner", f"/agents/{block.agent_id}?tab=memory", "small")
            prose(block.content)

    def _buttons(self, block: Block) -> None:
        icon_action("edit", f"Edit {brief(block.label, 60)}", partial(self._edit, block))
        if self._user_id is None:
            icon_action("group_add", "Let another agent read it", partial(self._share, block))
        if block.is_shared:
            icon_action("group_remove", "Let an agent read it no longer", partial(self._unshare, block))
        icon_action("delete", f"Delete {brief(block.label, 60)}", partial(self._delete, block))

    def _new(self) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.write(
                self._agent.id, str(entered["label"]), str(entered["content"]), user_id=self._user_id
            )
            await self._list.show()

        hint = "A block stands in the agent's prompt. One of this label is replaced."
        fill_in(self._visit, "New block", _NEW_BLOCK, take, hint=hint)

    def _edit(self, block: Block) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.write(
                self._agent.id, block.label, str(entered["content"]), user_id=self._user_id
            )
            await self._list.show()

        fill_in(self._visit, f"Block {block.label}", _BLOCK, take, values={"content": block.content})

    def _share(self, block: Block) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.link(self._agent.id, block.label, str(entered["reader"]))
            await self._list.show()

        fill_in(self._visit, f"Who is to read {block.label}?", _READER, take, label="Share", done="Shared.")

    def _unshare(self, block: Block) -> None:
        async def take(entered: JSONObject) -> None:
            await self._blocks.unlink(self._agent.id, block.label, str(entered["reader"]))
            await self._list.show()

        title = f"Who is to read {block.label} no longer?"
        fill_in(self._visit, title, _READER, take, label="Take it away", done="They read it no longer.")

    def _delete(self, block: Block) -> None:
        async def go() -> None:
            await self._blocks.drop(self._agent.id, block.label, user_id=self._user_id)
            await self._list.show()

        hint = "Agents that read it lose it too."
        confirm(self._visit, f"Delete the block {block.label}?", "Delete", go, done="Deleted.", hint=hint)


def _no_blocks() -> None:
    nothing("No blocks yet", "The agent writes them, or you do.")


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
